-- Reports whether this server has not reached transaction number $1. A standby may lag behind the
-- server that gave the number.
-- Called by jobs/event/outbox.Outbox.ahead.
select not pg_is_in_recovery() and $1::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot())
