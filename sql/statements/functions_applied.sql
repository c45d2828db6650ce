-- Returns the hash of the functions in the schema, and when they were applied, in microseconds
-- since 1970.
-- Called by sql.functionsState.
select
    functions,
    coalesce((extract(epoch from functions_at) * 1000000)::bigint, 0)
from prescient.settings()
