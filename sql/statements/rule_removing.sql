-- Marks a rule ($1) as being removed. Checks that have read it end before. No row: there is no such rule.
-- Called by jobs/rule/rulestore.Store.uninstall.
with locked as (
    select r.name from prescient.rule r where r.name = $1 for update -- waits for checks, see lock_rule
)
update prescient.rule r
set state = 'removing',
    position = null,
    updated_at = statement_timestamp()
from locked
where r.name = locked.name
returning r.relation, r.definition::text
