-- The hash of the functions that the schema has, and when they were applied, in microseconds since 1970: for Migrate and Migrations.
select
    functions,
    coalesce((extract(epoch from functions_at) * 1000000)::bigint, 0)
from prescient.settings()
