-- Returns two transaction numbers: all below the first have ended, and the server has not come to
-- the second. On Citus they are the coordinator's, as in the marks of events. A query of a table
-- would ask the worker, so no statement compares them with a column.
-- Called by cmd/internal/serve/board.readConsumers.
-- Called by jobs/event/outbox.Outbox.bounds.
-- Called by slots/ledger.Ledger.ConsumersAhead.
select prescient.oldest_active_xid(prepared => false), pg_snapshot_xmax(pg_current_snapshot())
