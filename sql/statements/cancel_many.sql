-- Cancels up to $7 of the waiting checks of a job ($1), an entity_name ($2), a pattern of entity_key
-- ($3), a group ($4) and fields of the payload ($5) that were enqueued before $6. Nulls do not narrow,
-- and checks of schedules stay; without a job, those of rules stay, too. It begins behind a position,
-- which is a slot ($8), a job number ($9) and an id ($10): from the first slot, the statement would
-- read everything again that the caller has walked past. It leaves a row that another transaction has locked: waiting could deadlock with a
-- transaction that writes the same rows in another order. It returns how many rows it cancelled, how
-- many it locked, and the position of the last one. A row that another transaction moved after the
-- snapshot is locked but not cancelled: its version in the snapshot has another key.
-- Called by jobs/admin.Client.CancelMany.
with picked as materialized (
    select f.next_check_at, f.job, f.id
    from prescient.future_job f
    where f.job is distinct from (select prescient.find_job('schedule'))
        and ($1::text is null or f.job = (select prescient.find_job($1)))
        and ($1::text is not null or (f.job = any (array(select prescient.find_job(r.name) from prescient.rule r))) is not true)
        and ($2::text is null or f.entity_name = $2)
        and ($3::text is null or f.entity_key like $3)
        and ($4::text is null or f.group_key = $4)
        and ($5::text is null or f.payload @> $5::jsonb)
        and ($6::timestamptz is null or f.enqueued_at < $6)
        and (f.next_check_at, f.job, f.id) > ($8::timestamptz, $9::bigint, $10::bigint)
    order by f.next_check_at, f.job, f.id
    limit $7
    for update skip locked
), gone as (
    delete from prescient.future_job f
    using picked p
    where f.next_check_at = p.next_check_at and f.job = p.job and f.id = p.id
    returning f.*
), archived as (
    insert into prescient.future_job_history (
        id, job_exec, slot, {{kept}},
        check_count, error_count, last_error, spent, payload, request, journal, outcome
    )
    select
        g.id, coalesce($1::text, (select j.name from prescient.job j where j.job = g.job), '#' || g.job),
        g.next_check_at, {{g.kept}},
        g.check_count, g.error_count, g.last_error, g.spent, g.payload, g.request,
        prescient.journal_add(g.journal, prescient.journal_in(prescient.journal_entry('cancelled', timestamptz 'epoch'), g.next_check_at)), 'cancelled'
    from gone g
)
select (select count(*) from gone), (select count(*) from picked), l.next_check_at, l.job, l.id
from (values (1)) as one
left join (select p.* from picked p order by p.next_check_at desc, p.job desc, p.id desc limit 1) as l on true
