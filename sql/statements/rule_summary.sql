-- Sums up a rule $1: its waiting rows, up to 1,000,000, and their first slot; and the rows that ended
-- since $2. met: the expected thing has happened before any step; met_late: after a step; open: the
-- last step has fired; left_out: the row of the table is gone, or no longer one of the rule. Rows of a
-- rule of the same name that was removed do not count.
-- Called by jobs/rule/rulestore.Store.Summary.
select
    waiting.n as waiting, waiting.first as next_slot,
    ended.met, ended.met_late, ended.open, ended.left_out, ended.cancelled, ended.failed
from (
    select count(*) as n, min(next_check_at) as first
    from (
        select f.next_check_at::timestamptz as next_check_at
        from prescient.future_job f
        where f.job = prescient.find_job($1)
        limit 1000000
    ) as f
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
            and h.finished_at >= $2
            and h.enqueued_at >= (select r.created_at from prescient.rule r where r.name = $1)
    ) as h
) as ended
