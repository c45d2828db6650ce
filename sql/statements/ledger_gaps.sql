-- Counts the missed slots from $1 up to but not including $2: the gaps of the ledger.
-- Called by slots.Runner.missed.
select count(*), min(s.slot), max(s.slot)
from (
    select generate_series(prescient.slot_ceil(greatest($1, since), width), $2::timestamptz - interval '1 microsecond', width) as slot
    from (select since, width from prescient.setting limit 1) as setting
) as s
where not exists (select from prescient.slot_run r where r.slot = s.slot)
