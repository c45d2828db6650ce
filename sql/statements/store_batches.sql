-- The batches of store $1 of which there are copies here.
select distinct batch
from prescient.store_in
where source = $1
