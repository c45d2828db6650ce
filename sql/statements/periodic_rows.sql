-- Returns the rows of periodic functions, which have the entity name $1, with the clock and the last
-- line of the journal of each. $2: a replayed clock, or null.
-- Called by internal/periodic.Rows.
-- Called by slots/ledger.Ledger.Ahead.
select
    j.name,
    coalesce($2::timestamptz, clock_timestamp()) as now,
    f.next_check_at,
    f.enqueued_at,
    coalesce(split_part(f.journal, chr(10), -1), '') as last,
    f.payload
from prescient.future_job f
join prescient.job j on j.job = f.job
where f.entity_name = $1 and f.item_key = '' and f.entity_key = j.name
order by j.name collate "C"
