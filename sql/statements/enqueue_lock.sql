-- The width of the slots, in seconds, which cannot be changed until the transaction ends: as the functions that write do, before
-- next_slot, or rows would go to slots of the grid before. To read nothing locks the table.
select extract(epoch from s.width)::bigint as width
from prescient.setting s
left join prescient.future_job f on false
