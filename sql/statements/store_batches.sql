-- Returns the batches of store $1 of which this store has copies.
-- Called by jobs/stores.mover.findCopies.
select distinct batch
from prescient.transfer_in
where source = $1
