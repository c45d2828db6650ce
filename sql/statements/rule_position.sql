-- Records how far the walk over the table of a rule ($1) has come: from $3 to $4. It returns no row
-- if another apply or a remove has changed the rule since version $2.
-- Called by internal/rulestore.Store.walkOver.
update prescient.rule
set position = $4,
    updated_at = statement_timestamp()
where name = $1 and version = $2 and state = 'applying' and position is not distinct from $3
returning name
