-- Updates schedules. They are given as arrays, in which '', 0 and -infinity are null, and the
-- exclusions of one are a text of lines. One that begins to be paused is so since $18, by $19.
-- Called by jobs/schedule.Store.write.
update prescient.schedule s
set crontab = g.crontab,
    timezone = g.timezone,
    payload = nullif(g.payload, '')::jsonb,
    deadline = nullif(g.deadline, 0) * interval '1 second',
    spread = g.spread * interval '1 second',
    misfire = g.misfire,
    anchor = g.anchor,
    paused = g.paused,
    paused_at = case when g.paused then coalesce(s.paused_at, $18::timestamptz) end,
    paused_by = case when g.paused then coalesce(s.paused_by, $19::text) end,
    deadline_from = nullif(g.deadline_from, ''),
    starts_at = g.starts_at,
    ends_at = g.ends_at,
    max_runs = nullif(g.max_runs, 0),
    exclude = string_to_array(nullif(g.exclude, ''), chr(10)),
    job_exec = nullif(g.job_exec, ''),
    notify = nullif(g.notify, ''),
    text = nullif(g.text, ''),
    version = s.version + 1,
    updated_at = statement_timestamp()
from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::timestamptz[], $9::boolean[],
    $10::text[], array_replace($11::timestamptz[], timestamptz '-infinity', null),
    array_replace($12::timestamptz[], timestamptz '-infinity', null), $13::integer[], $14::text[],
    $15::text[], $16::text[], $17::text[]
) as g (
    id, crontab, timezone, payload, deadline, spread, misfire, anchor, paused, deadline_from, starts_at, ends_at, max_runs, exclude,
    job_exec, notify, text
)
where s.id = g.id collate "C"
