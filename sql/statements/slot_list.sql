select slot, state, kind, planned, checked, finished, rescheduled, failed, take_overs, opened_at, finished_at
from prescient.slot_run
where slot >= $1 and slot < $2
order by slot desc
limit $3
