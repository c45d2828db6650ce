-- Moves finished rows of a claim to history, and counts them for the claim ($2) by job; $13: the
-- names of the jobs ($4); $14: the clock; $15: the payloads that replace those of the rows, or null.
-- It leaves out a row that has moved or ended meanwhile. The bounds on job and id keep a plan made for
-- a slot that the statistics have not seen from reading all of the slot.
-- rows_finish and rows_finish_alike have lists of columns of their own. Measured in pages of 1,000
-- rows: a function for both lists that the planner inlines costs the server 6 to 7 % more, and
-- finish_rows_apart at least 6 % more.
-- Called by slots/internal/record.Writer.finishRows.
with outcome as (
    select *
    from unnest($7::bigint[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $15::text[])
        as o (id, outcome, error, lateness, duration, state)
), gone as (
    delete from prescient.future_job f
    using outcome o
    where f.next_check_at = $1
        and f.job = any ($4::bigint[])
        and f.id between $5 and $6
        and f.id = o.id
    returning f.*, o.outcome, o.error, o.lateness, o.duration, o.state
), archived as (
    insert into prescient.future_job_history (
        id, job_exec, slot, {{kept}},
        check_count, error_count, last_error, spent, payload, request, journal, outcome, lateness, duration, runner
    )
    select
        g.id, j.name, g.next_check_at, {{g.kept}},
        prescient.checks_after(g.check_count, g.outcome), prescient.errors_after(g.error_count, g.outcome),
        coalesce(g.error, g.last_error), g.spent + prescient.microseconds(coalesce(g.duration, 0)),
        coalesce(g.state::prescient.payload, g.payload), g.request, g.journal, g.outcome, prescient.microseconds(g.lateness),
        prescient.microseconds(g.duration), $12::text
    from gone g
    join unnest($4::bigint[], $13::text[]) as j (job, name) on j.job = g.job
), tallied as (
    insert into prescient.slot_progress (slot, token, part, job, bucket, finished, failed, late, error, spent)
    select
        $1, $2, $3, g.job, prescient.lateness_bucket(g.lateness) as bucket,
        count(*) filter (where g.outcome <> 'failed'), count(*) filter (where g.outcome = 'failed'),
        count(*) filter (where prescient.microseconds(g.lateness) > j.sla),
        min(g.error) filter (where g.outcome = 'failed'),
        prescient.microseconds(coalesce(sum(g.duration), 0)::bigint)
    from gone g
    left join prescient.job j on j.job = g.job
    group by g.job, bucket
)
select
    count(*) filter (where outcome <> 'failed') as finished,
    0::bigint as rescheduled,
    count(*) filter (where outcome = 'failed') as failed
from (
    -- Volatile, so that it is called for each of them.
    select
        g.outcome,
        case
            when (g.request).check_at is not null
                then prescient.honour(g.job, g.entity_name, g.entity_key, g.item_key, $1, g.request, $14, g.outcome)
        end
    from gone g
) as g
having count(*) = cardinality($7::bigint[]) or prescient.require_recorded($1, $4::bigint[], $5, $6, $7::bigint[])
