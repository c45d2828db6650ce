-- Finds the jobs that have rows in a slot, lets their claims begin at the first row, and returns
-- the number of rows. It may only be called while no runner has a claim: then each row is either
-- recorded or to be claimed. It writes only what has changed, because rows of any number of names
-- that no binary has may be in the slot at each opening.
create or replace function prescient.scan_slot(at timestamptz)
returns bigint
language plpgsql
as $$
declare
    numbers bigint[];
    plans   bigint[];
begin
    with due as materialized (
        select number, prescient.estimate_rows(at, number) as planned
        from prescient.setting -- which is where they are counted
        cross join prescient.jobs_in_slot(at) as number
    )
    select array_agg(due.number), array_agg(due.planned) into numbers, plans from due;
    update prescient.slot_job s
    set drained = true
    where s.slot = at
        and not s.drained
        and not exists (select from unnest(numbers) as number where number = s.job);
    if numbers is null then
        return 0;
    end if;
    insert into prescient.slot_job as s (slot, job, planned)
    select at, due.number, due.planned
    from unnest(numbers, plans) as due (number, planned)
    left join prescient.slot_job o on o.slot = at and o.job = due.number
    where o.job is null
        or o.drained
        or o.cursor > 0
        or o.planned < o.finished + o.rescheduled + o.failed + due.planned
    on conflict (slot, job) do update
    set cursor = 0,
        drained = false,
        planned = greatest(s.planned, s.finished + s.rescheduled + s.failed + excluded.planned);
    return (select sum(planned) from unnest(plans) as planned);
end
$$;
