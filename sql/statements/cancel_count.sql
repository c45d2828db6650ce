-- Counts the waiting checks that a filter finds, see cancel_many. Those of schedules never count. It
-- also returns when the newest of them was enqueued, a digest, which tells these checks from as many
-- others, and how many checks of rules it leaves out, because no job is given. Without the subqueries
-- it would call find_job for each row: 11 s instead of 0.5 s for a million rows.
-- Called by jobs/admin.Client.PreviewCancel.
select
    count(*) filter (where not stays),
    max(enqueued_at) filter (where not stays),
    coalesce(sum(hashint8extended(id, 0)) filter (where not stays), 0)::text,
    count(*) filter (where stays)
from (
    select f.id, f.enqueued_at,
        $1::text is null and (f.job = any (array(select prescient.find_job(r.name) from prescient.rule r))) is true as stays
    from prescient.future_job f
    where f.job is distinct from (select prescient.find_job('schedule'))
        and ($1::text is null or f.job = (select prescient.find_job($1)))
        and ($2::text is null or f.entity_name = $2)
        and ($3::text is null or f.entity_key like $3)
        and ($4::text is null or f.group_key = $4)
        and ($5::text is null or f.payload @> $5::jsonb)
        and ($6::timestamptz is null or f.enqueued_at < $6)
) as f
