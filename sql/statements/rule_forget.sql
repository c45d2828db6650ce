-- Deletes up to $2 entries of a rule ($1) about steps, and about changes, and returns their numbers.
-- Called by internal/rulestore.Store.clean.
with picked as (
    select f.job, f.entity_key, f.since, f.step
    from prescient.rule_fired f
    where f.job = (select prescient.find_job($1))
    limit $2
), gone as (
    delete from prescient.rule_fired f
    using picked s
    where f.job = s.job and f.entity_key = s.entity_key and f.since = s.since and f.step = s.step
    returning f.job
), changes as (
    delete from prescient.rule_changed c
    using (select o.job, o.entity_key from prescient.rule_changed o where o.job = (select prescient.find_job($1)) limit $2) as o
    where c.job = o.job and c.entity_key = o.entity_key
    returning c.job
)
select (select count(*) from gone), (select count(*) from changes)
