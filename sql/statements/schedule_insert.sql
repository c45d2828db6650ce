-- Writes new schedules in the order of their ids. They are given as arrays, in which '', 0 and
-- -infinity are null, and the exclusions of one are a text of lines. It does not return schedules
-- whose id is taken.
-- Called by jobs/schedule.Store.create.
insert into prescient.schedule (
    id, crontab, timezone, payload, deadline, spread, misfire, anchor, paused, deadline_from, starts_at, ends_at, max_runs, exclude,
    job_exec, notify, text, paused_at, paused_by
)
select
    id, crontab, timezone, nullif(payload, '')::jsonb, nullif(deadline, 0) * interval '1 second', spread * interval '1 second', misfire, anchor, paused,
    nullif(deadline_from, ''), starts_at, ends_at, nullif(max_runs, 0),
    string_to_array(nullif(exclude, ''), chr(10)),
    nullif(job_exec, ''), nullif(notify, ''), nullif(text, ''),
    case when paused then statement_timestamp() end, case when paused then prescient.schedule_pauser() end
from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::timestamptz[], $9::boolean[],
    $10::text[], array_replace($11::timestamptz[], timestamptz '-infinity', null),
    array_replace($12::timestamptz[], timestamptz '-infinity', null), $13::integer[], $14::text[],
    $15::text[], $16::text[], $17::text[]
) as g (
    id, crontab, timezone, payload, deadline, spread, misfire, anchor, paused, deadline_from, starts_at, ends_at, max_runs, exclude,
    job_exec, notify, text
)
order by id collate "C"
on conflict (id) do nothing
returning id
