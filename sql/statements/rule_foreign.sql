-- Returns why the triggers of a rule must not call a function ($1), or null.
-- Called by jobs/rule/rulestore.resolver.foreign.
select prescient.refuse_foreign($1::regprocedure)
