-- Returns the slots, of the 96 from $2 on, in which rows of job $1 wait. Counting stops at 100,000
-- rows in all, or 1,000 of a slot: then stopped is true, and there may be more.
-- Called by cmd/internal/action.Tx.ahead.
-- Called by cmd/internal/serve/board.readAhead.
with s as materialized (
    select slot, job
    from (
        select generate_series($2::timestamptz, $2::timestamptz + 95 * width, width) as slot, prescient.find_job($1) as job
        from prescient.setting
    ) as s
    -- No exists, which the server may answer by reading every row of the job.
    cross join lateral (select from prescient.future_job f where f.next_check_at = s.slot and f.job = s.job limit 1) as one
), budget as materialized (
    select greatest(1000, 100000 / greatest(1, count(*))) as most from s
)
select s.slot, least(n.n, budget.most) as n, n.n > budget.most as stopped
from s
cross join budget
cross join lateral (
    select count(*) as n
    from (select from prescient.future_job f where f.next_check_at = s.slot and f.job = s.job limit (select most + 1 from budget)) as page
) as n
order by s.slot
