-- Returns the timeline of the checks of an entity. See the function why. SQL may ask for -infinity
-- or for another instant up to 1970, which means as soon as possible: to Go these are the instant of the request.
-- found: what the last check of a rule found. of_rule: whether a rule has the name of the job. steps_left_out: steps that had passed when the row came to the
-- rule, and do not fire. called: the payload of a row of a periodic function that a check has ended; see
-- periodic.Stamp. paused, used: since when a row of a rule is paused, as the triggers have noted or the last check
-- has found, and how much of each step's delay had passed then, as the last check has found. asked_at: of an ended row
-- that had a request with unless_ended_within, when it was requested. Another row that was enqueued then came of it.
-- Called by jobs/admin.Client.entries.
select
    id, w.job, coalesce(item, ''), item is null, at, what, slot,
    case when requested_for > timestamptz '1970-01-01 00:00:00+00' then requested_for when requested_for is not null then at end as requested_for,
    coalesce(by_role, ''), coalesce(app, ''), coalesce(actor, ''),
    coalesce(runner, ''), (extract(epoch from lateness) * 1000000)::bigint, (extract(epoch from duration) * 1000000)::bigint,
    coalesce(error, ''), coalesce(run, ''), opened_at, finished_at, coalesce(hindrance, ''),
    (extract(epoch from within) * 1000000)::bigint, coalesce(moved_from, ''), coalesce(moved_to, ''),
    case when what = 'done' then coalesce(s.payload ->> 'found', '') else '' end as found,
    exists (select from prescient.rule r where r.name = w.job) as of_rule,
    to_json(array(
        select jsonb_array_elements_text(case when jsonb_typeof(s.payload -> 'left_out') = 'array' then s.payload -> 'left_out' else '[]' end)
    ))::text as steps_left_out,
    case when $1 = 'periodic' and s.job = $2 then s.payload::text end as called,
    case
        when what <> 'waiting' or not c.paused then ''
        when c.paused then to_char(c.noted_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        else coalesce(s.payload ->> 'paused', '')
    end as paused,
    case when what = 'waiting' and jsonb_typeof(s.payload -> 'used') = 'array' then s.payload ->> 'used' else '[]' end as used,
    a.asked_at
from prescient.why($1, $2, job_exec => $3, item_key => $4, most => $5) with ordinality as w
left join lateral (
    select h.payload, w.job
    from prescient.future_job_history h
    where (w.what = 'done' or $1 = 'periodic' and w.lateness is not null and w.what = h.outcome) and h.entity_name = $1 and h.entity_key = $2 and h.id = w.id and h.job_exec = w.job
    union all
    select f.payload, null
    from prescient.future_job f
    where w.what = 'waiting' and f.entity_name = $1 and f.entity_key = $2 and f.id = w.id and f.job = prescient.find_job(w.job)
    limit 1
) as s on $1 = 'periodic' or exists (select from prescient.rule r where r.name = w.job)
left join lateral (
    -- What was noted since the rule has its condition.
    select c.pauses[cardinality(c.pauses)] as noted_at, cardinality(c.pauses) % 2 = 1 as paused
    from prescient.rule r
    join prescient.rule_changed c on c.job = prescient.find_job(r.name) and c.entity_key = $2
    where r.name = w.job and c.pauses[cardinality(c.pauses)] >= (r.definition -> 'facts' ->> 'paused_from')::timestamptz
) as c on what = 'waiting'
left join (
    select h.id as ended, h.outcome, h.finished_at as ended_at, (h.request).enqueued_at as asked_at
    from prescient.future_job_history h
    where h.entity_name = $1 and h.entity_key = $2
        and h.outcome not in ('cancelled', 'replaced')
        and (h.request).unless_ended_within is not null
) as a on a.ended = w.id and a.outcome = what and a.ended_at = w.at
order by w.ordinality
