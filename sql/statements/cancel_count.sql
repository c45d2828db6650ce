-- Counts the waiting checks that a filter finds, see cancel_many. Those of schedules never count. It
-- also returns when the newest of them was enqueued, and a digest, which tells these checks from as
-- many others. Without the subqueries it would call find_job for each row: 11 s instead of 0.5 s for
-- a million rows.
-- Called by jobs/admin.Client.CountCancel.
select count(*), max(f.enqueued_at), coalesce(sum(hashint8extended(f.id, 0)), 0)::text
from prescient.future_job f
where f.job is distinct from (select prescient.find_job('schedule'))
    and ($1::text is null or f.job = (select prescient.find_job($1)))
    and ($2::text is null or f.entity_name = $2)
    and ($3::text is null or f.entity_key like $3)
    and ($4::text is null or f.group_key = $4)
    and ($5::text is null or f.payload @> $5::jsonb)
    and ($6::timestamptz is null or f.enqueued_at < $6)
