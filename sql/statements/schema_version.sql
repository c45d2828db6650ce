-- Which version the schema has.
select schema_version
from prescient.setting
