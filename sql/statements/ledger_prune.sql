-- Forgets slots before $1 that are done; the ledger has no gaps before the first slot it keeps.
with moved as (
    update prescient.setting
    set since = greatest(since, prescient.slot_ceil($1, width))
), gone as (
    delete from prescient.slot_run r
    where r.slot < $1
        and r.state = 'done'
    returning slot
)
select count(*) from gone
