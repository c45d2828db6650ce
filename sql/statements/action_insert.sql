-- Records what an operator has asked for; $9: its outcome so far, $10: and the result.
insert into prescient.action (actor, what, target, plan, row_count, slots, schedules, events, outcome, result, ended_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, case when $9 <> 'running' then clock_timestamp() end)
returning id, at, ended_at, by_role
