-- Settings of the server without which slots are slow, and of the session with which they fail.
select
    current_setting('wal_compression') as wal_compression,
    current_setting('autovacuum') = 'on' as autovacuum,
    current_setting('default_transaction_isolation') as isolation,
    current_user as name
