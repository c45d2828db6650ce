-- Goes from slot $1 to the first later slot that has rows, but no further than $2. The slots
-- between have nothing to do, and each gets its row in the ledger as in a run of its own. It
-- returns the slot, and how many were between.
-- Called by internal/replay.Replay.Skip.
with next as materialized (
    select least($2::timestamptz, min(next_check_at)) as slot
    from prescient.future_job
    where next_check_at > $1
), skipped as (
    insert into prescient.slot_run (slot, state, kind, planned, finished_at)
    select s.slot, 'done', 'run', 0, clock_timestamp()
    from next, prescient.setting, generate_series($1::timestamptz + width, next.slot - interval '1 microsecond', width) as s (slot)
    on conflict (slot) do nothing
    returning 1
)
select next.slot, (select count(*) from skipped)
from next
