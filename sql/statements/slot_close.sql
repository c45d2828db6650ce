-- The last shard closes the slot.
update prescient.slot_run
set state = 'done',
    finished_at = clock_timestamp()
where slot = $1
    and state = 'open'
    and not exists (select from prescient.slot_lease where slot = $1)
returning state
