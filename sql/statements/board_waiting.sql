-- The waiting checks of an entity, of job $3 and item $4 if these are not null, without those of job "schedule" if $5,
-- in one row: how many, the first slot, a job, and a number that is another where the rows or their slots are others.
select
    count(*), coalesce(min(next_check_at), 'epoch'),
    coalesce((select j.name from prescient.job j where j.job = min(f.job)), '#' || min(f.job), ''),
    coalesce(bit_xor(hashint8extended(id, extract(epoch from next_check_at)::bigint)), 0)
from prescient.future_job f
where entity_name = $1 and entity_key = $2 and item_key is not null
    and ($3::text is null or job = prescient.number_of($3))
    and ($4::text is null or item_key = $4)
    and not ($5 and job = prescient.number_of('schedule'))
