-- Enqueues one check. See the function enqueue.
-- Called by jobs.Client.write.
select id, slot, action
from prescient.enqueue(
    $1, $2, $3, $4, $5::jsonb, $6, $7, $8, $9::double precision * interval '1 microsecond', $10, $11::double precision * interval '1 second',
    $12::double precision * interval '1 second'
)
