-- The settings that belong to the data, and the database's clock.
select
    extract(epoch from width)::bigint as width_seconds,
    since,
    schema_version,
    clock_timestamp() as clock
from prescient.setting
