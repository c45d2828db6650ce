-- Marks a rule ($1) as being removed. Checks that have read it end before. No row: there is no such rule.
-- Called by jobs/rule/rulestore.Store.uninstall.
update prescient.rule
set state = 'removing',
    position = null,
    updated_at = statement_timestamp()
where name = $1
returning relation, definition::text
