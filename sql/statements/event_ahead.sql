-- Whether $1 is a number that this server has given to no transaction yet. A standby may lag behind the server that
-- gave it.
select not pg_is_in_recovery() and $1::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot())
