-- Sums up a rule $1: its waiting rows in the next 10,000 slots that have rows, and their first slot;
-- and the rows that ended since $2. Above 1,000 rows in a slot their number is estimated; see the
-- function estimate_rows. met: the expected thing has happened before any step; met_late: after a
-- step; open: the last step has fired; left_out: the row of the table is gone, or no longer one of the
-- rule. Rows that ended before the rule was applied first do not count: they are of a removed rule of
-- the same name.
-- Called by internal/rulestore.Store.Summary.
select
    coalesce(waiting.n, 0) as waiting, coalesce(waiting.estimated, false) as estimated, waiting.first as next_slot,
    ended.met, ended.met_late, ended.open, ended.left_out, ended.cancelled, ended.failed
from (
    -- Through the slots one by one: no index has the rows of a job, and a scan would read those of all jobs.
    with recursive slots (nth, slot) as (
        (select 1, f.next_check_at::timestamptz from prescient.future_job f order by f.next_check_at limit 1)
        union all
        select s.nth + 1, n.slot
        from slots s
        cross join lateral (
            select f.next_check_at::timestamptz as slot
            from prescient.future_job f
            where f.next_check_at > s.slot
            order by f.next_check_at
            limit 1
        ) as n
        where s.nth < 10000
    )
    select
        sum(case when c.n <= 1000 then c.n else prescient.estimate_rows(s.slot, j.job) end)::bigint as n,
        bool_or(c.n > 1000) as estimated,
        min(s.slot) filter (where c.n > 0) as first
    from (select prescient.find_job($1) as job offset 0) as j -- found once
    cross join slots s
    cross join lateral (
        select count(*) as n
        from (select from prescient.future_job f where f.next_check_at = s.slot and f.job = j.job limit 1001) as page
    ) as c
) as waiting
cross join (
    select
        count(*) filter (where found like 'done%' and not fired) as met,
        count(*) filter (where found like 'done%' and fired) as met_late,
        count(*) filter (where found = 'open') as open,
        count(*) filter (where found in ('gone', 'outside')) as left_out,
        count(*) filter (where outcome = 'cancelled') as cancelled,
        count(*) filter (where outcome = 'failed') as failed
    from (
        select h.outcome::text, h.payload ->> 'found' as found, h.payload -> 'fired' is not null as fired
        from prescient.future_job_history h
        where h.job_exec = $1
            and h.finished_at >= greatest($2, (select r.created_at from prescient.rule r where r.name = $1))
    ) as h
) as ended
