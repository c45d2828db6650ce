-- Records that steps of the rule $1 fire: for the keys $2, since the instants $3, whose values are $4 if they have no
-- time zone and else empty, the steps $5 for the times $6, which were due at $7. Steps before the instants $8 were left
-- out; null: none was. It returns a row for each that was not recorded before. A repetition replaces the one before. The
-- number of rows that Citus reports beside an insert has all.
-- Called by internal/rule.page.record.
insert into prescient.rule_fired as f (job, entity_key, since, start, step, number, due_at, left_before)
select n.job, u.entity_key, u.since, nullif(u.start, ''), u.step, u.number, u.due_at, u.left_before
from unnest($2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::int[], $7::timestamptz[], $8::timestamptz[])
    as u (entity_key, since, start, step, number, due_at, left_before)
cross join (select prescient.find_job($1) as job offset 0) as n -- found once
on conflict (job, entity_key, since, step) do update
set number = excluded.number, due_at = excluded.due_at, times = f.times + 1, fired_at = excluded.fired_at,
    first_at = coalesce(f.first_at, f.fired_at), left_before = greatest(f.left_before, excluded.left_before)
where f.number < excluded.number
returning true
