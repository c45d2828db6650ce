-- The jobs by number, and the cache of pending checks: nothing old in it.

-- +goose Up
create table prescient.job (
    job       bigint not null,
    name      text   not null,
    paused_at timestamptz,
    paused_by text,
    constraint job_pkey primary key (job),
    -- Every enqueue, cancel and reschedule finds its job by name.
    constraint job_name_key unique (name),
    -- With the keys of future_job the sum stays below what a b-tree entry may hold.
    constraint job_name check (octet_length(name) between 1 and 200),
    constraint job_paused check ((paused_at is null) = (paused_by is null))
);

comment on table prescient.job is 'the number of each job_exec that was ever enqueued, paused or registered; a name keeps its number for ever';
comment on column prescient.job.paused_at is 'since when no run claims rows of the job; null: it is not paused';

-- The number of a job: that of its row, else the one that it will get.
create function prescient.number_of(job_exec text)
returns bigint
language sql
stable
as $$
    select coalesce((select j.job from prescient.job j where j.name = job_exec), hashtextextended(job_exec, 0))
$$;

-- number_of, for those who write rows: a new name gets its row. A number follows from the name, so nobody waits for a
-- transaction that brings the same new name and goes on: it leaves the row of table job to that one. Where that is
-- rolled back, the row is written by the next who comes, or by the first runner that knows the job.
-- +goose StatementBegin
create function prescient.job_number(job_exec text)
returns bigint
language plpgsql
as $$
declare
    number bigint;
    other  text;
begin
    select j.job into number from prescient.job j where j.name = job_exec;
    if found then
        return number;
    end if;
    number := hashtextextended(job_exec, 0);
    select j.name into other from prescient.job j where j.job = number;
    if found and other <> job_exec then
        raise exception 'jobs % and % have the same number', quote_literal(job_exec), quote_literal(other)
            using errcode = 'unique_violation', hint = 'Give one of them another name.';
    end if;
    if pg_try_advisory_xact_lock(hashtextextended('prescient.job ' || job_exec, 0)) then
        insert into prescient.job (job, name) values (number, job_exec) on conflict do nothing;
    end if;
    return number;
end
$$;
-- +goose StatementEnd

create table prescient.future_job (
    id             bigint      not null generated always as identity,
    job            bigint      not null,
    entity_name    text        not null,
    entity_key     text        not null,
    item_key       text                 default '',
    group_key      text,
    first_check_at timestamptz not null,
    next_check_at  timestamptz not null,
    check_count    integer     not null default 0,
    error_count    integer     not null default 0,
    last_error     text,
    spent          interval    not null default '0',
    payload        jsonb,
    enqueued_at    timestamptz not null default clock_timestamp(),
    enqueued_by    text        not null default current_user,

    -- The slot index: a run reads, deletes and moves rows by equality on the slot and the job, in the order of ids.
    -- id has no index of its own; each further index costs 30-100 % of the write rate.
    constraint future_job_pkey primary key (next_check_at, job, id),

    constraint future_job_on_grid check (
        next_check_at = date_bin(interval '15 minutes', next_check_at, timestamptz '1970-01-01 00:00:00+00')
    ),
    -- Also keeps out the infinities, which the driver cannot scan.
    constraint future_job_in_range check (
        next_check_at between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
        and first_check_at between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
    ),
    -- The sum stays below what a b-tree entry may hold.
    constraint future_job_names check (
        octet_length(entity_name) between 1 and 200
        and octet_length(entity_key) between 1 and 500
        and octet_length(item_key) <= 500
        and octet_length(group_key) between 1 and 500
    ),
    constraint future_job_counts check (check_count >= 0 and error_count >= 0)
)
-- A slot's rows leave all at once; vacuum soon, so that the space serves the next slot.
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column prescient.future_job.job is 'the number of the job_exec, see table job and function number_of';
comment on column prescient.future_job.item_key is 'tells apart two checks of one job on one entity; null: anonymous, found by nobody';
comment on column prescient.future_job.group_key is 'rows of one group are checked together by a job that is registered so; null: the entity is its own group';
comment on column prescient.future_job.first_check_at is 'the first slot the row waited for; nothing changes it';
comment on column prescient.future_job.check_count is 'checks that returned without an error';
comment on column prescient.future_job.error_count is 'errors in a row since the last check without one';
comment on column prescient.future_job.spent is 'run time of all checks so far';

-- The natural key: enqueue's on conflict, cancel and reschedule by key, cancel by entity (its first two columns).
create unique index future_job_key
on prescient.future_job (entity_name, entity_key, job, item_key)
where item_key is not null;

-- group_read: the due rows of a group.
create index future_job_group
on prescient.future_job (group_key, next_check_at)
where group_key is not null;

-- +goose Down
drop table prescient.future_job;
drop function prescient.job_number(text);
drop function prescient.number_of(text);
drop table prescient.job;
