-- Deletes up to $2 entries of a rule ($1) and returns their number.
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
)
select count(*) from gone
