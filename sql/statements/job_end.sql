-- Ends waiting rows, which slot ($1), job_exec ($2) and id ($3) name, with outcome $4, by the clock
-- $5. A cancellation also ends the request that an enqueue has recorded on a row; otherwise the request
-- is honoured. It returns how many rows there were.
-- Called by jobs.Client.End.
with given as materialized (
    select r.slot, r.job_exec, prescient.find_job(r.job_exec) as job, r.id
    from unnest($1::timestamptz[], $2::text[], $3::bigint[]) as r (slot, job_exec, id)
), gone as (
    delete from prescient.future_job f
    using given r
    where f.next_check_at = r.slot and f.job = r.job and f.id = r.id
    returning f.*, r.job_exec
), archived as (
    insert into prescient.future_job_history (
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
        last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, requested_for, requested_within, request, trace, outcome
    )
    select
        g.id, g.job_exec, g.entity_name, g.entity_key, g.item_key, g.group_key, g.first_check_at, g.next_check_at, g.check_count, g.error_count,
        g.last_error, g.spent, g.payload, g.enqueued_at, g.enqueued_by, g.enqueued_app, g.enqueued_actor, g.requested_for, g.requested_within, g.request,
        prescient.traced(g.trace, prescient.journal_in(prescient.journal_entry($4, timestamptz 'epoch'), g.next_check_at)), $4
    from gone g
)
select count(*)
from (
    -- Volatile, so that it is called for each of them.
    select
        case
            when $4::text <> 'cancelled' and (g.request).check_at is not null
                then prescient.honour(g.job, g.entity_name, g.entity_key, g.item_key, g.next_check_at, g.request, $5::timestamptz, $4::text)
        end
    from gone g
) as g
