with page as materialized (
    select
        r.*,
        r.prescient_about and not r.prescient_done and (r.prescient_since is not null or {starts}) as prescient_counts
    from (
        select {key} as prescient_key, {keys}, {since} as prescient_since, {start} as prescient_start, {about} as prescient_about, {done} as prescient_done,
            {held} as prescient_held, {done_at} as prescient_done_at, {paused} as prescient_paused
        from {relation}
        {between}
        order by {order}
        limit {limit}
    ) as r
)
select
    p.prescient_key as key, (extract(epoch from p.prescient_since) * 1000000)::bigint as since, f.id, f.next_check_at as slot, f.requested,
    f.payload ->> 'from' as from, f.payload ->> 'since' as of_since, f.payload ->> 'left_out' as left_out, f.error_count as errors, r.steps as fired, r.due, r.recovers, r.left_before,
    f.payload ->> 'came' as came, p.prescient_held as held,
    case when isfinite(p.prescient_done_at) then p.prescient_done_at end as done_at, p.prescient_paused as paused, n.pauses, null::bigint as read, null::timestamptz as now
from page p
left join lateral (
    select w.id, w.next_check_at, coalesce(w.requested_for, w.first_check_at) as requested, w.payload, w.error_count
    from prescient.future_job w
    where {known} and w.entity_name = {entity} and w.entity_key = p.prescient_key collate "C" and w.job = (select prescient.find_job({name})) and w.item_key = ''
    limit 1
) as f on true
left join lateral (
    select array_agg(case when a.number > 1 then a.step || '#' || a.number else a.step end) as steps, array_agg(coalesce((extract(epoch from a.due_at) * 1000000)::bigint, 0)) as due,
        array_agg(coalesce(a.fired_at >= {recovers_at}, false)) as recovers, max(a.left_before) as left_before
    from prescient.rule_fired a
    where {known} and a.job = (select prescient.find_job({name})) and a.entity_key = p.prescient_key collate "C" and (a.since = p.prescient_since or a.start = p.prescient_start)
) as r on true
left join lateral (
    select array(select (extract(epoch from u.at) * 1000000)::bigint from unnest(c.pauses) with ordinality as u (at, nth) order by u.nth) as pauses
    from prescient.rule_changed c
    where {pauses} and c.job = (select prescient.find_job({name})) and c.entity_key = p.prescient_key collate "C"
) as n on true
where p.prescient_counts
union all
select (select p.prescient_key from page p order by {last} limit 1),
    null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, (select count(*) from page), coalesce($1::timestamptz, clock_timestamp())
