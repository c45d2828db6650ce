-- Returns a condition as the server understands it, from the check with a name ($2) of a table ($1): its text, the
-- columns that it reads, and its parse tree.
-- Called by jobs/rule/rulestore.resolver.condition.
select pg_get_expr(c.conbin, c.conrelid) as text, coalesce(c.conkey, '{}') as columns, c.conbin::text as tree
from pg_constraint c
where c.conrelid = $1::regclass and c.conname = $2
