-- Returns the version of the schema.
-- Called by sql.MakeRoles.
select schema_version
from prescient.setting
