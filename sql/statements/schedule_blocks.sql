-- How many blocks of schedules there are.
select pg_catalog.pg_relation_size('prescient.schedule'::regclass) / 8192
