-- What waits in the slots from $1 up to but not including $2, by job: counted up to 1,000, above that an estimate, see
-- rows_in_slot.
select
    s.slot,
    coalesce(j.name, '#' || number) as name,
    prescient.rows_in_slot(s.slot, number) as waiting
from (
    select generate_series($1, $2::timestamptz - interval '1 microsecond', width) as slot
    from (select width from prescient.setting limit 1) as setting
) as s
cross join lateral prescient.jobs_in_slot(s.slot) as number
left join prescient.job j on j.job = number
