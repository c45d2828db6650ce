-- tstamp has no time zone: it is in that of the session which migrated, so of the server unless somebody set another.
select version_id, max(tstamp)::timestamptz
from prescient.schema_migration
where is_applied and version_id > 0
group by version_id
order by version_id
