-- The slots from $1 to $2 that are missed (no ledger row; $2 itself may still be opened), left open, or done with
-- rows in them, each found by equality on the slot. live: leases that somebody is working under.
-- The probe is a lateral one: as an exists it would become a hash of the whole table.
select
    s.slot,
    coalesce(r.state, 'missed') as state,
    (
        select count(*)
        from (
            select
            from prescient.future_job f
            where f.next_check_at = s.slot
                and f.job_exec <> all (array(select job_exec from prescient.paused_job))
            limit 10000
        ) as few
    ) as waiting,
    (
        select count(*)
        from prescient.slot_lease l
        where l.slot = s.slot and l.allocated_until >= clock_timestamp()
    ) as live
from (
    select generate_series(prescient.slot_ceil(greatest($1, since), width), $2, width) as slot
    from (select since, width from prescient.setting limit 1) as setting
) as s
left join prescient.slot_run r on r.slot = s.slot
left join lateral (
    select true as waits
    from prescient.future_job f
    where f.next_check_at = s.slot
        and f.job_exec <> all (array(select job_exec from prescient.paused_job))
    limit 1
) as probe on true
where (r.slot is null and s.slot < $2)
    or r.state = 'open'
    or (r.state = 'done' and probe.waits)
order by s.slot
