select inserted, kept, replaced, pushed_back
from prescient.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8, $9::double precision * interval '1 microsecond', $10, $11)
