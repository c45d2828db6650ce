-- Returns a random entry about a step that has fired, out of a thousandth of the blocks. No row: they have none. The
-- number is no parameter, because Citus takes none in tablesample.
-- Called by jobs/admin.Client.pruneFired.
select f.job, f.entity_key, f.since, f.step
from prescient.rule_fired f tablesample system (0.1)
order by random()
limit 1
