-- Gives a rule ($1) another definition ($2), of a table that may have another name now ($5). $4 says
-- whether an apply has to walk over its table, and $6 which steps have other times than in the last walk that is
-- done. It returns no row if the rule no longer has version $3, or is being removed.
-- Called by internal/rulestore.Store.install.
with alone as materialized (
    select pg_advisory_xact_lock(hashtextextended('prescient.rule ' || $1, 0))::text, -- waits for checks, see lock_rule; Citus takes no void
        statement_timestamp() as now -- Citus takes no clock in the case below
)
update prescient.rule r
set definition = $2::json,
    relation = $5,
    version = r.version + 1,
    state = case when $4::boolean then 'applying' else r.state end,
    retimed = $6::text[],
    position = case when $4::boolean then null else r.position end,
    recovers_at = case when $2::json #> '{rule,recovered}' is not null then coalesce(r.recovers_at, alone.now) end,
    updated_at = statement_timestamp()
from alone
where r.name = $1 and r.version = $3 and r.state <> 'removing'
returning r.version
