-- Counts the waiting rows in the slots from $1 up to but not including $2, by job. Above 1,000 rows
-- the number is an estimate; see the function estimate_rows.
-- Called by internal/forecast.reader.readSlots.
select
    s.slot,
    coalesce(j.name, '#' || number) as name,
    prescient.estimate_rows(s.slot, number) as waiting
from (
    select generate_series($1, $2::timestamptz - interval '1 microsecond', width) as slot
    from (select width from prescient.setting limit 1) as setting
) as s
cross join lateral prescient.jobs_in_slot(s.slot) as number
left join prescient.job j on j.job = number
