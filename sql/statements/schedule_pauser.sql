-- Returns since when and by whom a schedule is paused that is paused now. In a statement of its own, because the statement
-- that pauses it may run on another server.
-- Called by jobs/schedule.Store.write.
select statement_timestamp() as at, prescient.schedule_pauser() as by
