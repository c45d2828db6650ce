-- Forgets slots before $1 that are done, but none from the first one on that has rows, of paused jobs too; the ledger has
-- no gaps before the first slot it keeps.
with upto as materialized (
    select least($1::timestamptz, (select min(next_check_at) from prescient.future_job)) as slot
), moved as (
    update prescient.setting
    set since = greatest(since, prescient.slot_ceil((select slot from upto), width))
), gone as (
    delete from prescient.slot_run r
    where r.slot < (select slot from upto)
        and r.state = 'done'
    returning slot
)
select count(*) from gone
