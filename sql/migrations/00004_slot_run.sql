-- The ledger of slots, and who works on what.

-- +goose Up
create table prescient.slot_run (
    slot        timestamptz not null,
    state       text        not null,
    kind        text        not null,
    planned     bigint      not null,
    checked     bigint      not null default 0,
    finished    bigint      not null default 0,
    rescheduled bigint      not null default 0,
    failed      bigint      not null default 0,
    take_overs  integer     not null default 0,
    asked       bigint      not null default 0,
    opened_at   timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    constraint slot_run_pkey primary key (slot),
    constraint slot_run_state check (state in ('open', 'done')),
    constraint slot_run_kind check (kind in ('run', 'catch_up')),
    constraint slot_run_finished check ((state = 'done') = (finished_at is not null))
);

comment on table prescient.slot_run is 'one row for every slot that was opened, an empty one too; a gap is a missed slot';
comment on column prescient.slot_run.planned is 'rows when the slot was opened; an estimate when there were many';
comment on column prescient.slot_run.checked is 'rows whose outcome a run recorded: finished + rescheduled + failed';
comment on column prescient.slot_run.failed is 'checks that ended in an error, to be tried again or given up';

comment on column prescient.slot_run.asked is 'how often a runner without shards asked those that hold some for a share';

-- status and catch-up look for slots that were left open: few rows, whatever the age of the ledger.
create index slot_run_open on prescient.slot_run (slot) where state = 'open';

create table prescient.slot_lease (
    slot            timestamptz not null,
    shard           smallint    not null,
    token           bigint      not null default 0,
    runner          text,
    allocated_until timestamptz,
    finished        bigint      not null default 0,
    rescheduled     bigint      not null default 0,
    failed          bigint      not null default 0,
    constraint slot_lease_pkey primary key (slot, shard),
    constraint slot_lease_slot_run_fkey foreign key (slot) references prescient.slot_run (slot),
    constraint slot_lease_owner check ((runner is null) = (allocated_until is null))
)
-- Updated by every batch and every heartbeat: room for HOT updates.
with (fillfactor = 50);

comment on table prescient.slot_lease is 'a runner''s time-limited right to a shard of a slot; gone when the shard is done';
comment on column prescient.slot_lease.token is 'fences a runner that lost its lease; 0: never claimed';

-- What checks with a transaction of their own recorded, one row a transaction: adding it up in the lease row would
-- let them commit one at a time. Summed up and deleted when the shard is closed.
create table prescient.slot_tally (
    slot        timestamptz not null,
    shard       smallint    not null,
    finished    bigint      not null,
    rescheduled bigint      not null,
    failed      bigint      not null
);

-- shard_close and slot_show: the tallies of a shard.
create index slot_tally_shard on prescient.slot_tally (slot, shard);

-- Tokens never repeat, not even when a shard is opened again.
create sequence prescient.slot_token;

-- +goose Down
drop sequence prescient.slot_token;
drop table prescient.slot_tally;
drop table prescient.slot_lease;
drop table prescient.slot_run;
