-- Forgets finished slots before $1, up to the first one that has rows, of paused jobs too. The
-- ledger has no gaps before the first slot that it keeps.
-- Called by slots/ledger.Ledger.Prune.
with upto as materialized (
    select first.slot, prescient.slot_ceil(first.slot, width) as since
    from (select least($1::timestamptz, (select min(next_check_at) from prescient.future_job)) as slot) as first
    cross join prescient.setting
), moved as (
    update prescient.setting s
    set since = greatest(s.since, upto.since)
    from upto
), gone as (
    delete from prescient.slot_run r
    where r.slot < (select slot from upto)
        and r.state = 'done'
    returning slot
)
select count(*) from gone
