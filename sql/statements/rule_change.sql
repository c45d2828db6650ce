-- Gives a rule ($1) another definition ($2), of a table that may have another name now ($5). $4 says
-- whether an apply has to walk over its table. It returns no row if the rule no longer has version $3,
-- or is being removed.
-- Called by jobs/rule/rulestore.Store.install.
update prescient.rule
set definition = $2::json,
    relation = $5,
    version = version + 1,
    state = case when $4::boolean then 'applying' else state end,
    position = case when $4::boolean then null else position end,
    updated_at = statement_timestamp()
where name = $1 and version = $3 and state <> 'removing'
returning version
