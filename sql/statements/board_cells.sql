-- Sums up the opened slots from $1 up to but not including $2, in cells of $3 seconds. Counts of
-- open slots are what their runners have recorded so far.
-- live: open slots with a runner. took: the longest slot that waited for no lock of another session, in
-- microseconds; see the function slot_took. took_waiting: the longest of those that did. waited_for: one
-- of these sessions.
-- Called by cmd/internal/serve/board.reader.cells.
select
    date_bin($3 * interval '1 second', r.slot, $1) as cell,
    count(*) as slots,
    count(*) filter (where r.state = 'done') as done,
    max(r.slot) as last,
    count(*) filter (where r.state = 'open') as open,
    count(*) filter (where o.live) as live,
    count(*) filter (where r.kind = 'catch_up') as caught_up,
    sum(r.planned)::bigint as planned,
    sum(r.checked + coalesce(o.checked, 0))::bigint as checked,
    sum(r.failed + coalesce(o.failed, 0))::bigint as failed,
    coalesce(max(w.took) filter (where r.waited_for is null), 0) as took,
    coalesce(max(w.took) filter (where r.waited_for is not null), 0) as took_waiting,
    coalesce(max(r.waited_for), '') as waited_for
from prescient.slot_run r
left join lateral (
    select
        exists (select from prescient.slot_claim c where c.slot = r.slot and c.allocated_until >= clock_timestamp()) as live,
        sum(t.finished + t.rescheduled + t.failed) as checked,
        sum(t.failed) as failed,
        max(t.recorded_at) filter (where t.job <> 0) as last_at
    from prescient.slot_progress t
    where t.slot = r.slot
) as o on r.state = 'open'
left join (
    select s.slot, max(s.last_at) as last_at
    from prescient.slot_job s
    where s.slot >= $1 and s.slot < $2
    group by s.slot
) as j on j.slot = r.slot
cross join lateral (
    select prescient.slot_took(
        r.state, r.worked, r.opened_at, r.resumed_at, r.finished_at, greatest(j.last_at, o.last_at), coalesce(o.live, false)
    ) as took
) as w
where r.slot >= $1 and r.slot < $2
group by cell
order by cell
