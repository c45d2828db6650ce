-- Deletes a rule ($1) that is being removed.
-- Called by jobs/rule/rulestore.Store.Remove.
delete from prescient.rule
where name = $1 and state = 'removing'
returning name
