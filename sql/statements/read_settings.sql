-- The settings that belong to the data, the database's clock, and which database it is.
select
    extract(epoch from width)::bigint as width_seconds,
    since,
    schema_version,
    usable_from,
    clock_timestamp() as clock,
    coalesce(host(inet_server_addr()), '') as host,
    current_database() as database,
    split_part(current_setting('server_version'), ' ', 1) as version,
    exists (select from pg_catalog.pg_extension where extname = 'citus') as citus
from prescient.settings()
