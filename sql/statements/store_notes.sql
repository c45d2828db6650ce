-- Returns the batches that were released to other stores and, as far as this store knows, do not
-- wait there yet.
-- Called by jobs/stores.mover.finish.
-- Called by slots/ledger.Ledger.Leaving.
select batch, target, source_name, target_name, given, given_at
from prescient.transfer_out
order by given_at, batch
