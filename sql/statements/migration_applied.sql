-- Returns the time of a migration. tstamp has no time zone: it is in the zone of the session that
-- migrated, which is the server's unless that session set another.
-- Called by sql.Migrations.
select version_id, max(tstamp)::timestamptz
from prescient.schema_migration
where is_applied and version_id > 0
group by version_id
order by version_id
