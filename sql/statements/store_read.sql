-- Returns the settings of a store.
-- Called by cmd/internal/database.IDs.
-- Called by jobs/stores.Store.read.
select s.store, s.draining_since, coalesce(s.draining_by, '') as draining_by, t.schema_version
from prescient.store() s
cross join prescient.settings() t
