-- Returns settings of the server that make slots slow, and settings of the session that make them
-- fail.
-- Called by cmd/internal/doctor.settings.
select
    current_setting('wal_compression') as wal_compression,
    current_setting('autovacuum') = 'on' as autovacuum,
    current_setting('default_transaction_isolation') as isolation,
    current_user as name
