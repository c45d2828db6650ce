-- A shard that was empty when the slot was opened, or is done, and has rows now: committed late, while the slot
-- is open still.
insert into prescient.slot_lease (slot, shard)
select distinct f.next_check_at, f.shard
from prescient.future_job f
where f.next_check_at = $1
on conflict (slot, shard) do nothing
