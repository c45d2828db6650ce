select state
from prescient.close_slot($1, $2, $3)
