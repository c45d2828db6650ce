-- One slot with what its running shards have done so far.
select
    r.slot, r.state, r.kind, r.planned,
    r.checked + coalesce(l.finished + l.rescheduled + l.failed, 0) as checked,
    r.finished + coalesce(l.finished, 0) as finished,
    r.rescheduled + coalesce(l.rescheduled, 0) as rescheduled,
    r.failed + coalesce(l.failed, 0) as failed,
    r.take_overs, r.opened_at, r.finished_at
from prescient.slot_run r
cross join (
    select
        sum(finished)::bigint as finished,
        sum(rescheduled)::bigint as rescheduled,
        sum(failed)::bigint as failed
    from (
        select finished, rescheduled, failed
        from prescient.slot_lease
        where slot = $1
        union all
        select finished, rescheduled, failed
        from prescient.slot_tally
        where slot = $1
    ) as so_far
) as l
where r.slot = $1
