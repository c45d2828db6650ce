-- Returns the clock of the database.
-- Called by cmd/doctor.clock.
select clock_timestamp()
