-- Since when about $1 rows have ended, by the ledger, of which no more than 20,000 slots are read; null: it has not so many.
select case when count(*) = 20000 or sum(finished) >= $1::bigint then min(opened_at) filter (where before < $1::bigint) end
from (
    select opened_at, finished, sum(finished) over (order by slot desc) - finished as before
    from (select slot, opened_at, finished from prescient.slot_run order by slot desc limit 20000) as newest
) as counted
