-- The rows of batch $1 wait in the other store.
delete from prescient.store_out
where batch = $1
returning 1
