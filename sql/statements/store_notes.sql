-- The batches that were given to other stores, and do not wait there as far as is known here.
select batch, target, source_name, target_name, given, given_at
from prescient.store_out
order by given_at, batch
