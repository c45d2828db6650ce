-- Deletes copies of rows that store $1 has not released and never will.
-- Called by jobs/stores.mover.finish.
delete from prescient.transfer_in
where source = $1 and batch = any ($2::bigint[])
returning 1
