-- Records an action of an operator, in the name of the caller's role. outcome and result are those
-- so far. Operators may not write to table action, so that they cannot change what is recorded.
create or replace function prescient.record_action(
    actor     text,
    what      text,
    target    text,
    plan      text,
    row_count bigint,
    slots     bigint,
    schedules bigint,
    events    bigint,
    outcome   text,
    result    text
)
returns prescient.action
language sql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    insert into prescient.action (actor, what, target, plan, row_count, slots, schedules, events, outcome, result, finished_at)
    values (actor, what, target, plan, row_count, slots, schedules, events, outcome, result, case when outcome <> 'running' then clock_timestamp() end)
    returning *
$$;
revoke all on function prescient.record_action(text, text, text, text, bigint, bigint, bigint, bigint, text, text) from public;
