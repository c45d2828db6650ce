-- Counts the entries that rule_prune would delete: those from before $1 whose key neither waits nor can
-- be retried.
-- Called by jobs/admin.Client.pruneFired.
select count(*)
from prescient.rule_fired o
left join prescient.job j on j.job = o.job
left join prescient.rule r on r.name = j.name
where o.fired_at < $1
    and not exists (
        select
        from prescient.future_job f
        where f.entity_name = r.definition #>> '{rule,entity}' and f.entity_key = o.entity_key and f.job = o.job and f.item_key = ''
    )
    and not exists (
        select
        from prescient.future_job_history h
        where h.entity_name = r.definition #>> '{rule,entity}' and h.entity_key = o.entity_key and h.item_key = '' and h.job_exec = j.name
            and h.outcome = 'failed'
    )
