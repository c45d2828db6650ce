-- Returns the keys that rows of rules had when steps fired for them, of those that are known as the key $2 of entity $1 now.
-- Called by jobs/admin.Client.FormerKeys.
select distinct f.key_then
from prescient.rule r
join prescient.rule_fired f on f.job = prescient.find_job(r.name)
where r.definition -> 'rule' ->> 'entity' = $1 and f.entity_key = $2 and f.key_then <> f.entity_key
order by f.key_then
limit 20
