-- Marks a rule ($1) as being removed. Checks that have read it end before. No row: there is no such rule.
-- Called by internal/rulestore.Store.uninstall.
with alone as materialized (
    select pg_advisory_xact_lock(hashtextextended('prescient.rule ' || $1, 0))::text -- waits for checks, see lock_rule; Citus takes no void
)
update prescient.rule r
set state = 'removing',
    position = null,
    updated_at = statement_timestamp()
from alone
where r.name = $1
returning r.relation, r.definition::text
