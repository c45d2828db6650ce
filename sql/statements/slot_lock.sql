-- Runners that close their shards at the same time do so one after the other, or none of them would see itself
-- as the last.
select
from prescient.slot_run
where slot = $1
for update
