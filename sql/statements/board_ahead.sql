-- The slots from $2 on, of the next 96, in which rows of job $1 wait, each counted up to 1,000 rows.
select s.slot, n.n
from (
    select generate_series($2::timestamptz, $2::timestamptz + 95 * width, width) as slot, prescient.number_of($1) as job
    from prescient.setting
) as s
cross join lateral (
    select count(*) as n
    from (select from prescient.future_job f where f.next_check_at = s.slot and f.job = s.job limit 1000) as page
) as n
where n.n > 0
order by s.slot
