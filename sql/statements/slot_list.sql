-- Returns slots of the ledger. Counts of open slots are what their runners have recorded so far.
-- Called by slots/ledger.Ledger.page.
select
    r.slot, r.state, r.kind, r.planned,
    r.checked + coalesce(l.finished + l.rescheduled + l.failed, 0) as checked,
    r.finished + coalesce(l.finished, 0) as finished,
    r.rescheduled + coalesce(l.rescheduled, 0) as rescheduled,
    r.failed + coalesce(l.failed, 0) as failed,
    r.take_overs + coalesce(l.take_overs, 0) as take_overs,
    r.opened_at, r.finished_at, r.names, coalesce(r.waited_for, '') as waited_for,
    prescient.slot_took(r.state, r.worked, r.opened_at, r.resumed_at, r.finished_at, greatest(s.last_at, l.last_at), exists (
        select from prescient.slot_claim c where c.slot = r.slot and c.allocated_until >= clock_timestamp()
    )) as took
from prescient.slot_run r
left join lateral (select max(s.last_at) as last_at from prescient.slot_job s where s.slot = r.slot) as s on true
left join lateral (
    select
        sum(t.finished)::bigint as finished, sum(t.rescheduled)::bigint as rescheduled, sum(t.failed)::bigint as failed,
        sum(t.take_overs)::bigint as take_overs, max(t.recorded_at) filter (where t.job <> 0) as last_at
    from prescient.slot_progress t
    where t.slot = r.slot and r.state = 'open'
) as l on true
where r.slot >= $1 and r.slot < $2
order by r.slot desc
limit $3
