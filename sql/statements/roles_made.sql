-- Whether schema $1 belongs to the role of its owner ($2).
select coalesce(nspowner = to_regrole($2), false)
from pg_catalog.pg_namespace
where nspname = $1
