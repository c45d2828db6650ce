-- Does what move_rows does, for rows that are all alike: no error, and one entry for their journals. See
-- rows_finish_alike.
create or replace function prescient.move_rows_alike(
    at       timestamptz,
    own      bigint,
    this     bigint,
    numbers  bigint[],
    first_id bigint,
    last_id  bigint,
    ids      bigint[],
    check_at timestamptz,
    kind     text,
    duration bigint,
    clock    timestamptz,
    entry    text,
    lateness bigint,
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
        with moved as (
            update prescient.future_job f
            set next_check_at = greatest(check_at, earliest),
                check_count = prescient.checks_after(f.check_count, kind),
                error_count = prescient.errors_after(f.error_count, kind),
                spent = f.spent + prescient.microseconds(coalesce(duration, 0)),
                journal = prescient.journal_add(f.journal, entry)
            where f.next_check_at = at
                and f.job = any (numbers)
                and f.id between first_id and last_id
                and f.id + 0 = any (ids)
            returning f.job, (f.request).check_at as asked_at
        )
        insert into prescient.slot_progress (slot, token, part, job, bucket, rescheduled, requests, late, spent)
        select
            at, own, this, m.job, prescient.lateness_bucket(lateness), m.n, m.requests,
            case when prescient.microseconds(lateness) > j.sla then m.n else 0 end,
            prescient.microseconds(m.n * coalesce(duration, 0))
        from (select job, count(*) as n, count(asked_at) as requests from moved group by job) as m
        left join prescient.job j on j.job = m.job
        returning rescheduled, requests
    loop
        rescheduled := rescheduled + tally.rescheduled;
        asked := asked or tally.requests > 0;
    end loop;
    if rescheduled + failed < cardinality(ids) then
        perform prescient.require_recorded(at, numbers, first_id, last_id, ids);
    end if;
    if asked then
        perform prescient.honour_moved(at, numbers, ids, array[greatest(check_at, earliest)], clock);
    end if;
end
$$;
