-- Forgets batch $1, whose rows wait in the other store.
-- Called by jobs/stores.mover.settle.
delete from prescient.transfer_out
where batch = $1
returning 1
