-- Counts the blocks of the table of schedules.
-- Called by jobs/schedule.Sample.
select pg_catalog.pg_relation_size('prescient.schedule'::regclass) / 8192
