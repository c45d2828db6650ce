-- Adds a rule ($1) of a table ($2), for an apply to begin. It returns no row if the rule is there.
-- Called by jobs/rule/rulestore.Store.install.
insert into prescient.rule (name, relation, definition)
values ($1, $2, $3::json)
on conflict (name) do nothing
returning version
