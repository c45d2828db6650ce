-- Locks the width of the slots until the transaction ends, and returns it in seconds. It must run
-- before next_slot: otherwise the rows might go to slots of the earlier width. Reading no row is
-- enough to lock the table.
-- Called by jobs.copier.values.
select extract(epoch from s.width)::bigint as width
from prescient.setting s
left join prescient.future_job f on false
