-- Returns the time of a migration.
-- Called by sql.Migrations.
-- Called by sql.replaceFunctions.
select version_id, max(tstamp)
from prescient.schema_migration
where is_applied and version_id > 0
group by version_id
order by version_id
