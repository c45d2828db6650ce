-- Counts the rows of all jobs that wait in some slots $1, those of the rule included. Above 1,000 rows of a
-- job the number is an estimate; see the function estimate_rows.
-- Called by internal/rulestore.Store.beside.
select
    s.slot,
    coalesce((
        select sum(prescient.estimate_rows(s.slot, number))
        from prescient.jobs_in_slot(s.slot) as number
    ), 0)::bigint as waiting
from unnest($1::timestamptz[]) as s (slot)
