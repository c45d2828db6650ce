-- Records that an apply of a rule ($1) of version $2 is done. It returns no row if another apply or a remove has changed
-- the rule. $3: the actor; empty: the role.
-- Called by internal/rulestore.Store.apply.
-- Called by internal/rulestore.Store.walkOver.
update prescient.rule
set state = 'active',
    position = null,
    retimed = '{}',
    applied_at = statement_timestamp(),
    applied_by = coalesce(nullif($3::text, ''), current_user),
    updated_at = statement_timestamp()
where name = $1 and version = $2 and state <> 'removing'
returning name
