-- Returns at most $2 schedules that have dropped an event since $1, or failed after their last
-- retry, newest first. It leaves out deleted schedules.
-- Called by cmd/internal/serve/board.readMisfires.
select id, sum(dropped)::bigint as dropped, max(dropped_at) as dropped_at, max(gave_up_at) as gave_up_at, coalesce(max(error), '') as error
from (
    (
        select d.id, d.dropped, d.dropped_at, null::timestamptz as gave_up_at, null::text as error
        from prescient.schedule_state d
        where d.dropped_at >= $1
        order by d.dropped_at desc
        limit $2
    )
    union all
    (
        select h.entity_key, 0, null, h.finished_at, h.last_error
        from prescient.future_job_history h
        where h.outcome = 'failed' and h.finished_at >= $1 and h.job_exec = 'schedule'
            and exists (select from prescient.schedule s where s.id = h.entity_key)
        order by h.finished_at desc
        limit $2
    )
) as missed
group by id
order by greatest(max(dropped_at), max(gave_up_at)) desc, id
limit $2
