-- Returns the clock of the database.
-- Called by cmd/internal/doctor.clock.
select clock_timestamp()
