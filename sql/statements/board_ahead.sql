-- Returns the slots, of the 96 from $2 on, in which rows of job $1 wait. It counts up to 1,000 rows
-- a slot.
-- Called by cmd/internal/serve/board.readAhead.
select s.slot, n.n
from (
    select generate_series($2::timestamptz, $2::timestamptz + 95 * width, width) as slot, prescient.find_job($1) as job
    from prescient.setting
) as s
cross join lateral (
    select count(*) as n
    from (select from prescient.future_job f where f.next_check_at = s.slot and f.job = s.job limit 1000) as page
) as n
where n.n > 0
order by s.slot
