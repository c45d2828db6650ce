-- Returns the last run, by the clock, of the newest 1,000 slots up to $1: its slot and kind, when it
-- began, when it ended, and its last runner.
-- Called by slots/ledger.Ledger.last.
select slot, kind, began, finished_at, runner
from (
    select
        r.slot, r.kind, coalesce(r.resumed_at, r.opened_at) as began, r.finished_at, r.names[cardinality(r.names)] as runner
    from prescient.slot_run r
    where r.slot <= $1
    order by r.slot desc
    limit 1000
) as newest
where runner is not null
order by greatest(began, finished_at) desc, slot desc
limit 1
