-- Since when about $1 rows have ended, by the ledger, of which no more than 20,000 slots are read; null: it has none.
select min(opened_at)
from (
    select opened_at, sum(finished) over (order by slot desc) - finished as before
    from (select slot, opened_at, finished from prescient.slot_run order by slot desc limit 20000) as newest
) as counted
where before < $1::bigint
