-- Returns the settings that belong to the data, the clock of the database, and which database and
-- store it is. Times are numbers; see page_read.
-- Called by cmd/internal/serve/board.reader.since.
-- Called by jobs/schedule.settings.
-- Called by sql.readSetting.
select
    extract(epoch from width)::bigint as width_seconds,
    (extract(epoch from since) * 1000000)::bigint as since,
    schema_version,
    min_code_version,
    (extract(epoch from clock_timestamp()) * 1000000)::bigint as clock,
    coalesce(
        case family(inet_server_addr()) when 6 then '[' || host(inet_server_addr()) || ']' else host(inet_server_addr()) end || ':' || inet_server_port(),
        ''
    ) as host,
    current_database() as database,
    split_part(current_setting('server_version'), ' ', 1) as version,
    exists (select from pg_catalog.pg_extension where extname = 'citus') as citus,
    t.store
from prescient.settings()
cross join prescient.store() as t
