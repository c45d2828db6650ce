-- Adds a rule ($1) of a table ($2), for an apply to begin. $4: the clock of a replay, or null. It
-- returns no row if the rule is there.
-- Called by internal/rulestore.Store.install.
insert into prescient.rule (name, relation, definition, created_at, recovers_at)
values (
    $1, $2, $3::json, coalesce($4::timestamptz, clock_timestamp()),
    case when $3::json #> '{rule,recovered}' is not null then clock_timestamp() end
)
on conflict (name) do nothing
returning version
