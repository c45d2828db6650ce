-- Counts the entries of a rule ($1), by step: how often each step has fired.
-- Called by jobs/rule/rulestore.Store.Fired.
select f.step, count(*) as fired, max(f.fired_at) as last_at
from prescient.rule_fired f
where f.job = prescient.find_job($1)
group by f.step
order by f.step
