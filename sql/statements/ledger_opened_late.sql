-- Sums up the slots up to $2 that a run or catch-up has opened since $1, more than $3 seconds after they began: their
-- number, how many of them catch-up has opened, the first and the last, and the longest time, in microseconds. It
-- looks at the slots since $1, and at no fewer than the newest 1,000. A slot that was opened by hand first counts from
-- run_at on.
-- Called by slots/ledger.Ledger.OpenedLate.
select
    count(*) as slots,
    count(*) filter (where r.kind = 'catch_up') as caught_up,
    min(r.slot) as first,
    max(r.slot) as last,
    coalesce((extract(epoch from max(coalesce(r.run_at, r.opened_at) - r.slot)) * 1000000)::bigint, 0) as longest
from prescient.slot_run r
where r.slot <= $2
    and r.slot >= least($1, coalesce((
        select n.slot from prescient.slot_run n where n.slot <= $2 order by n.slot desc offset 999 limit 1
    ), '-infinity'))
    and coalesce(r.run_at, r.opened_at) >= $1
    and coalesce(r.run_at, r.opened_at) > r.slot + $3 * interval '1 second'
    and r.kind <> 'by_hand'
