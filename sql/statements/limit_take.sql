-- Takes permits of a job for a run. See the function take_places.
-- Called by slots/internal/permit.Limit.take.
select key, places
from prescient.take_places($1, $2, $3, $4, $5, $6 * interval '1 microsecond')
