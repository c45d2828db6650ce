select state, planned
from prescient.slot_run
where slot = $1
