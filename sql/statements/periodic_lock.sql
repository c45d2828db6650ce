-- Lets one process at a time make the rows of periodic functions, until its transaction ends.
-- Called by jobs.Client.renewPeriodic.
select pg_advisory_xact_lock(hashtextextended('prescient.periodic', 0))
