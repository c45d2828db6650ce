-- Whether a backfill is still the last one of its schedule, which it stays until the transaction ends.
select count(*)
from (
    select
    from prescient.schedule_drop
    where id = $1 and backfills = $2
    for update
) as d
