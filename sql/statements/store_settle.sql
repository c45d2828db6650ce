select settled, replaced, cancelled
from prescient.settle_rows($1, $2, $3, $4, $5, $6)
