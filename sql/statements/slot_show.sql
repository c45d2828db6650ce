-- One slot with what its runners have recorded so far.
select
    r.slot, r.state, r.kind, r.planned,
    r.checked + coalesce(l.finished + l.rescheduled + l.failed, 0) as checked,
    r.finished + coalesce(l.finished, 0) as finished,
    r.rescheduled + coalesce(l.rescheduled, 0) as rescheduled,
    r.failed + coalesce(l.failed, 0) as failed,
    r.take_overs + coalesce(l.take_overs, 0) as take_overs,
    r.opened_at, r.finished_at
from prescient.slot_run r
cross join (
    select
        sum(finished)::bigint as finished,
        sum(rescheduled)::bigint as rescheduled,
        sum(failed)::bigint as failed,
        sum(take_overs)::bigint as take_overs
    from prescient.slot_tally
    where slot = $1
) as l
where r.slot = $1
