-- Locks those rows of a batch that nobody else has locked, in id order.
select id
from prescient.future_job
where next_check_at = $1 and shard = $2 and id = any ($3::bigint[])
order by id
for update skip locked
