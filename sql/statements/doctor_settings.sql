-- Settings of the server that slots are slow without.
select current_setting('wal_compression') as wal_compression, current_setting('autovacuum') = 'on' as autovacuum
