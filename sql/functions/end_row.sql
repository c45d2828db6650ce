-- Ends a row of a slot (at) with an outcome, and puts it into history. Returns false if it has moved
-- or ended meanwhile, and fails if a trigger suppresses the end.
-- job_exec: the name of the job, if the caller knows it. The row of a new job may not have committed
-- yet.
-- error, payload, lateness, duration and runner are those of the last check, if a run ends the row.
-- Without a runner, the end is an entry of the row's journal.
-- A row that is cancelled or replaced takes its request with it. The request of another row is
-- honoured; see honour.
-- The plans are kept, and look into the slot index whatever the statistics say.
-- It costs three times as much as a part of a statement for many rows, so cancel_many and cancel_keys
-- do not use it.
-- Called by end_check, end_checks and record_row, and by the statement job_end.
create or replace function prescient.end_row(
    at       timestamptz,
    number   bigint,
    row_id   bigint,
    job_exec text,
    outcome  text,
    clock    timestamptz default null,
    error    text default null,
    payload  jsonb default null,
    lateness bigint default null,
    duration bigint default null,
    runner   text default null
)
returns boolean
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    checked text := case when runner is not null then outcome end;
    entry   text := case when runner is null then prescient.journal_entry(outcome, at) end;
    was     record;
begin
    with gone as (
        delete from prescient.future_job f
        where f.next_check_at = at and f.job = number and f.id = row_id
        returning *
    )
    insert into prescient.future_job_history (
        id, job_exec, slot, {{kept}},
        check_count, error_count, last_error, spent, payload, request, journal, outcome, lateness, duration, runner
    )
    select
        g.id, coalesce(end_row.job_exec, (select j.name from prescient.job j where j.job = number), '#' || number),
        g.next_check_at, {{g.kept}},
        prescient.checks_after(g.check_count, checked), prescient.errors_after(g.error_count, checked),
        coalesce(end_row.error, g.last_error), g.spent + prescient.microseconds(coalesce(end_row.duration, 0)),
        coalesce(end_row.payload::prescient.payload, g.payload), g.request, prescient.journal_add(g.journal, entry),
        end_row.outcome, prescient.microseconds(end_row.lateness), prescient.microseconds(end_row.duration),
        end_row.runner
    from gone g
    returning entity_name::text, entity_key::text, item_key::text, request into was;
    if not found then
        perform prescient.require_recorded(at, array[number], row_id, row_id, array[row_id]);
        return false;
    end if;
    if (was.request).check_at is not null and outcome not in ('cancelled', 'replaced') then
        perform prescient.honour(number, was.entity_name, was.entity_key, was.item_key, at, was.request, clock, outcome);
    end if;
    return true;
end
$$;
