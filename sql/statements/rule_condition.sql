-- Returns a condition as the server understands it, from the check with a name ($2) of a table ($1): its text, and the
-- columns that it reads.
-- Called by jobs/rule/rulestore.resolver.condition.
select pg_get_expr(c.conbin, c.conrelid) as text, coalesce(c.conkey, '{}') as columns
from pg_constraint c
where c.conrelid = $1::regclass and c.conname = $2
