-- Reports whether a table that was called $1 is now called $2: there is no table $1, and $2 has triggers with the
-- names $3 of the rule.
-- Called by internal/rulestore.Store.moved.
select to_regclass($1) is null
    and exists (select from pg_trigger t where t.tgrelid = to_regclass($2) and t.tgname = any ($3::text[]))
