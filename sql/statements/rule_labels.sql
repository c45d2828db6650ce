-- Returns the values of an enum ($1), in their order, for a message about one that is not there.
-- Called by internal/rulestore.Store.labels.
select e.enumlabel::text
from pg_enum e
where e.enumtypid = to_regtype($1::text)
order by e.enumsortorder
