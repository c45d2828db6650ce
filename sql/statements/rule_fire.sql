-- Records that steps of the rule $1 fire: for the keys $2, since the instants $3, the steps $4. It returns
-- a row for each step that was not recorded before. The number of rows that Citus reports beside an insert has all.
-- Called by jobs/rule.page.record.
insert into prescient.rule_fired (job, entity_key, since, step)
select n.job, u.entity_key, u.since, u.step
from unnest($2::text[], $3::timestamptz[], $4::text[]) as u (entity_key, since, step)
cross join (select prescient.find_job($1) as job offset 0) as n -- found once
on conflict do nothing
returning true
