-- Returns the version that the server reports.
-- Called by sql.engineSays.
select version()
