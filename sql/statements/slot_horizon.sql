-- Every transaction that had begun to write before this one has a lower number.
select pg_current_xact_id()::text
