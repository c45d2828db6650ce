-- Moves rows of a claim to later slots, and counts them for the claim (own) by job. kinds: next (the
-- check asked for it), retry (it failed), defer (it did not run). payloads replace those of the rows
-- unless they are null, and entries go into their journals. A slot that has begun by now is never a
-- target. It leaves out a row that has moved or ended meanwhile. Each call is planned with the numbers
-- that it is given.
create or replace function prescient.move_rows(
    at         timestamptz,
    own        bigint,
    this       bigint,
    numbers    bigint[],
    first_id   bigint,
    last_id    bigint,
    ids        bigint[],
    kinds      text[],
    check_ats  timestamptz[],
    errors     text[],
    durations  bigint[],
    payloads   jsonb[],
    clock      timestamptz,
    entries    text[],
    latenesses bigint[],
    out finished    bigint,
    out rescheduled bigint,
    out failed      bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    tally    record;
    asked    boolean := false;
    earliest timestamptz := prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', clock);
begin
    finished := 0;
    rescheduled := 0;
    failed := 0;
    for tally in
        with outcome as (
            select *
            from unnest(ids, kinds, check_ats, errors, durations, payloads, entries, latenesses)
                as o (id, kind, next_check_at, error, duration, payload, entry, lateness)
        ), moved as (
            update prescient.future_job f
            set next_check_at = greatest(o.next_check_at, earliest),
                check_count = prescient.checks_after(f.check_count, o.kind),
                error_count = prescient.errors_after(f.error_count, o.kind),
                last_error = coalesce(o.error, f.last_error),
                payload = coalesce(o.payload::prescient.payload, f.payload),
                spent = f.spent + prescient.microseconds(coalesce(o.duration, 0)),
                journal = prescient.journal_add(f.journal, o.entry)
            from outcome o
            where f.next_check_at = at
                and f.job = any (numbers)
                and f.id between first_id and last_id
                and f.id = o.id
            returning f.job, (f.request).check_at as asked_at, o.kind, o.error, o.duration, o.lateness
        )
        insert into prescient.slot_progress (slot, token, part, job, bucket, rescheduled, failed, requests, late, error, spent)
        select
            at, own, this, m.job, prescient.lateness_bucket(m.lateness) as bucket,
            count(*) filter (where m.kind <> 'retry'), count(*) filter (where m.kind = 'retry'),
            count(m.asked_at),
            count(*) filter (where prescient.microseconds(m.lateness) > j.sla),
            min(m.error) filter (where m.kind = 'retry'),
            prescient.microseconds(coalesce(sum(m.duration), 0)::bigint)
        from moved m
        left join prescient.job j on j.job = m.job
        group by m.job, bucket
        returning rescheduled, failed, requests
    loop
        rescheduled := rescheduled + tally.rescheduled;
        asked := asked or tally.requests > 0;
        failed := failed + tally.failed;
    end loop;
    if rescheduled + failed < cardinality(ids) then
        perform prescient.require_recorded(at, numbers, first_id, last_id, ids);
    end if;
    if asked then
        perform prescient.honour_moved(at, numbers, ids, array(select greatest(a, earliest) from unnest(check_ats) as a), clock);
    end if;
end
$$;
