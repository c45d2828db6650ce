-- Moves finished rows of one shard to history. Rows that are no longer in the slot are their owner's again.
-- The bounds on id keep a plan made for a slot that the statistics have not seen from reading all of the slot.
with outcome as (
    select *
    from unnest($5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[])
        as o (id, outcome, error, lateness, duration)
), gone as (
    delete from prescient.future_job f
    using outcome o
    where f.next_check_at = $1
        and f.shard = $2
        and f.id = o.id
        and f.id between $3 and $4
    returning f.*, o.outcome, o.error, o.lateness, o.duration
), archived as (
    insert into prescient.future_job_history (
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
        last_error, spent, payload, enqueued_at, enqueued_by, outcome, lateness, duration, runner
    )
    select
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at,
        case when outcome in ('done', 'max_checks', 'horizon', 'past') then check_count + 1 else check_count end,
        case when outcome = 'failed' then error_count + 1 else error_count end,
        coalesce(error, last_error),
        spent + coalesce(duration, 0) * interval '1 microsecond',
        payload, enqueued_at, enqueued_by, outcome,
        lateness * interval '1 microsecond',
        duration * interval '1 microsecond',
        $10
    from gone
)
select
    count(*) filter (where outcome <> 'failed') as finished,
    count(*) filter (where outcome = 'failed') as failed
from gone
