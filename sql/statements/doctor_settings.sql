-- Settings of the server that slots are slow without, and of the session, at which they fail.
select
    current_setting('wal_compression') as wal_compression,
    current_setting('autovacuum') = 'on' as autovacuum,
    current_setting('default_transaction_isolation') as isolation,
    current_user as name
