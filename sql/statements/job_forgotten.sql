-- Returns the jobs that were paused before $1 and have rows that are due at $2: since
-- when they are paused, by whom, since when the oldest row is due, and whether the job is that of a rule.
-- Called by slots/ledger.Ledger.Forgotten.
select j.name, j.paused_at, j.paused_by, f.next_check_at, exists (select from prescient.rule r where r.name = j.name) as of_rule
from prescient.job j
cross join lateral (
    select f.next_check_at
    from prescient.future_job f
    where f.job = j.job and f.next_check_at <= $2
    order by f.next_check_at
    limit 1
) as f
where j.paused_at < $1
order by j.name
