-- Returns a random entry about a step that has fired, out of $1 percent of the blocks. No row: they have none.
-- Called by jobs/admin.Client.pruneFired.
select f.job, f.entity_key, f.since, f.step
from prescient.rule_fired f tablesample system ($1)
order by random()
limit 1
