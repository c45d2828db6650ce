-- Sums up the waiting checks of an entity in one row. It filters by job $3 and item $4 unless they
-- are null. If $5, it leaves out what cancel_entity leaves: job "schedule", what schedules enqueue, and
-- the jobs of rules.
-- It returns their number, the first slot, one of the jobs, a fingerprint that changes when the
-- rows or their slots change, or have changed and are as before, the number of checks of rules that
-- it leaves out, and the id of one of the rows.
-- Called by cmd/internal/action.Waiting.
with found as (
    select f.id, f.job, f.next_check_at, f.journal,
        $5 and (f.job = any (array(select prescient.find_job(r.name) from prescient.rule r))) is true as stays
    from prescient.future_job f
    where entity_name = $1 and entity_key = $2 and item_key is not null
        and ($3::text is null or job = (select prescient.find_job($3)))
        and ($4::text is null or item_key = $4)
        and not ($5 and job is not distinct from (select prescient.find_job('schedule')))
        and not ($5 and entity_name = 'schedule' and starts_with(item_key, entity_key || '-')) -- as of_schedule
)
select
    count(*), coalesce(min(next_check_at), 'epoch'),
    coalesce((select j.name from prescient.job j where j.job = min(f.job)), '#' || min(f.job), ''),
    coalesce(bit_xor(hashtextextended(coalesce(journal, ''), hashint8extended(id, extract(epoch from next_check_at)::bigint))), 0),
    (select count(*) from found where stays),
    coalesce(min(id), 0)
from found f
where not stays
