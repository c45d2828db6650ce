-- The cache of pending checks: nothing old in it.

-- +goose Up
create table prescient.future_job (
    id             bigint      not null generated always as identity,
    job_exec       text        not null,
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
    shard          smallint    not null generated always as (
        hashtextextended(coalesce(group_key, entity_name || chr(31) || entity_key), 0) & 15
    ) stored,
    enqueued_at    timestamptz not null default clock_timestamp(),
    enqueued_by    text        not null default current_user,

    -- The slot index: a run reads, deletes and moves rows by equality on the slot.
    -- id has no index of its own; each further index costs 30-100 % of the write rate.
    constraint future_job_pkey primary key (next_check_at, shard, id),

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
        octet_length(job_exec) between 1 and 200
        and octet_length(entity_name) between 1 and 200
        and octet_length(entity_key) between 1 and 500
        and octet_length(item_key) <= 500
        and octet_length(group_key) between 1 and 500
    ),
    constraint future_job_counts check (check_count >= 0 and error_count >= 0)
)
-- A slot's rows leave all at once; vacuum soon, so that the space serves the next slot.
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column prescient.future_job.item_key is 'tells apart two checks of one job on one entity; null: anonymous, found by nobody';
comment on column prescient.future_job.group_key is 'rows of one group share a shard; null: the entity is its own group';
comment on column prescient.future_job.check_count is 'checks that returned without an error';
comment on column prescient.future_job.error_count is 'errors in a row since the last check without one';
comment on column prescient.future_job.spent is 'run time of all checks so far';

-- The natural key: enqueue's on conflict, cancel and reschedule by key, cancel by entity (its first two columns).
create unique index future_job_key
on prescient.future_job (entity_name, entity_key, job_exec, item_key)
where item_key is not null;

-- +goose StatementBegin
create function prescient.keep_first_check_at()
returns trigger
language plpgsql
as $$
begin
    if new.first_check_at is distinct from old.first_check_at then
        raise exception 'first_check_at is immutable'
            using errcode = 'check_violation',
                  hint = 'To look at the entity at another time, set next_check_at through prescient.reschedule.';
    end if;
    return new;
end
$$;
-- +goose StatementEnd

-- Fires only for an update that names the column, so a run does not pay for it.
create trigger future_job_first_check_at
before update of first_check_at on prescient.future_job
for each row execute function prescient.keep_first_check_at();

-- Jobs whose rows wait until they are resumed. A run leaves them where they are and closes the slot without them.
create table prescient.paused_job (
    job_exec  text        not null,
    paused_at timestamptz not null default clock_timestamp(),
    paused_by text        not null default current_user,
    constraint paused_job_pkey primary key (job_exec)
);

-- +goose Down
drop table prescient.paused_job;
drop table prescient.future_job;
drop function prescient.keep_first_check_at();
