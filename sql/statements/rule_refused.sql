-- Returns why the triggers of a rule must not call a function ($1) with their role ($2, or null for the current one), or null.
-- Called by internal/rulestore.resolver.refused.
select prescient.refuse_routine($1::regprocedure, $2::text)
