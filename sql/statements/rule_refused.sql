-- Returns why the triggers of a rule must not call a function ($1), or null.
-- Called by jobs/rule/rulestore.resolver.refused.
select prescient.refuse_routine($1::regprocedure)
