-- Counts the waiting rows by job in the slots $1, which have the states $2. It counts 1,000 rows of
-- each job in each slot, and returns the 100 largest numbers.
-- Called by slots/metrics.snapshot.readSlots.
select s.state, coalesce(j.name, '#' || number) as job, sum(n.n)::bigint as waiting
from unnest($1::timestamptz[], $2::text[]) as s (slot, state)
cross join lateral prescient.jobs_in_slot(s.slot) as number
left join prescient.job j on j.job = number
cross join lateral (
    select count(*) as n
    from (select from prescient.future_job f where f.next_check_at = s.slot and f.job = number limit 1000) as page
) as n
where j.paused_at is null
group by 1, 2
order by 3 desc, 2, 1
limit 100
