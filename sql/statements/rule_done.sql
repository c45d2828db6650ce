-- Records that an apply of a rule ($1) of version $2 is done. It returns no row if another apply or a remove has changed
-- the rule. $3: the actor; empty: the role.
-- Called by internal/rulestore.Store.apply.
-- Called by internal/rulestore.Store.walkOver.
with actor as materialized (
    select coalesce(nullif($3::text, ''), current_user) as name -- Citus takes no current_user in a coalesce of the update
)
update prescient.rule r
set state = 'active',
    position = null,
    retimed = '{}',
    applied_at = statement_timestamp(),
    applied_by = actor.name,
    updated_at = statement_timestamp()
from actor
where r.name = $1 and r.version = $2 and r.state <> 'removing'
returning r.name
