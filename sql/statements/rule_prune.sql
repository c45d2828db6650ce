-- Deletes old entries about steps that have fired, out of the next $6 entries after one ($2 to $5;
-- nulls: the first ones), up to another one ($7 to $10; nulls: the last one): those from before $1
-- whose key neither waits nor can be retried. It returns their number, how many entries it has read,
-- and the last one.
-- Called by jobs/admin.Client.pruneBetween.
with page as materialized (
    select f.job, f.entity_key, f.since, f.step, f.fired_at
    from prescient.rule_fired f
    where ($2::bigint is null or (f.job, f.entity_key::text, f.since, f.step) > ($2, $3::text, $4::timestamptz, $5::text))
        and ($7::bigint is null or (f.job, f.entity_key::text, f.since, f.step) <= ($7, $8::text, $9::timestamptz, $10::text))
    order by f.job, f.entity_key, f.since, f.step
    limit $6
), old as materialized (
    select p.job, p.entity_key, p.since, p.step
    from page p
    left join prescient.job j on j.job = p.job
    left join prescient.rule r on r.name = j.name
    where p.fired_at < $1
        and not exists (
            select
            from prescient.future_job f
            where f.entity_name = r.definition #>> '{rule,entity}' and f.entity_key = p.entity_key and f.job = p.job and f.item_key = ''
        )
        and not exists (
            select
            from prescient.future_job_history h
            where h.entity_name = r.definition #>> '{rule,entity}' and h.entity_key = p.entity_key and h.item_key = '' and h.job_exec = j.name
                and h.outcome = 'failed'
        )
), gone as (
    delete from prescient.rule_fired f
    using old o
    where f.job = o.job and f.entity_key = o.entity_key and f.since = o.since and f.step = o.step
    returning f.job
)
select
    (select count(*) from gone), (select count(*) from page), l.job, l.entity_key, l.since, l.step
from (values (1)) as one
left join (select * from page order by job desc, entity_key desc, since desc, step desc limit 1) as l on true
