-- How often runners have asked for shards of a slot.
select asked
from prescient.slot_run
where slot = $1
