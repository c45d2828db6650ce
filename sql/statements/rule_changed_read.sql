-- Returns when the columns of the keys $2 have changed that since of the rule $1 names, and when the rows were paused:
-- see internal/rule.Pauses.
-- Called by internal/rule.page.readNoted.
select entity_key, changed_at, array(select (extract(epoch from u.at) * 1000000)::bigint from unnest(pauses) with ordinality as u (at, nth) order by u.nth) as pauses
from prescient.rule_changed
where job = prescient.find_job($1) and entity_key = any ($2::text[])
