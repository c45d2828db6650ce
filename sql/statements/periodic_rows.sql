-- Returns the rows of periodic functions, which have the entity name $1: whether each is due, and
-- whether it was written while the clock was ahead, by more than a minute. $2: a replayed clock, or
-- null.
-- Called by internal/periodic.Rows.
-- Called by slots/ledger.Ledger.Ahead.
select
    j.name,
    f.next_check_at <= coalesce($2::timestamptz, clock_timestamp()) as due,
    f.enqueued_at - coalesce($2::timestamptz, clock_timestamp()) > interval '1 minute' as ahead,
    f.payload
from prescient.future_job f
join prescient.job j on j.job = f.job
where f.entity_name = $1 and f.item_key = '' and f.entity_key = j.name
order by j.name collate "C"
