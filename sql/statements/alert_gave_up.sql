-- Returns a row if history has a row of job $1 that has failed for good since $2, and was neither retried nor
-- acknowledged. What a rule did that was removed does not count.
-- Called by internal/alert.Config.stillGivenUp.
select true
from prescient.future_job_history h
left join prescient.job j on j.name = h.job_exec
where h.finished_at >= $2
    and h.outcome = 'failed'
    and h.ack is null
    and h.job_exec = $1
    and (j.job is null or j.registered_at is not null or exists (select from prescient.rule r where r.name = j.name))
limit 1
