-- Returns the newest slots from $1 to $2 in which checks began later than the SLA of their job, at
-- most $3. Rows that were deferred, or ended unchecked, are no checks. A slot with a runner counts
-- once the runner has finished; a slot that was left open counts.
-- Called by slots/ledger.Ledger.LateSlots.
select s.slot, coalesce(j.name, '#' || s.job) as name, sum(s.checked)::bigint as checked, sum(s.late)::bigint as late
from (
    select slot, job, 0 as checked, late
    from prescient.slot_job
    where slot between $1 and $2
    union all
    select slot, job, checks, 0
    from prescient.slot_lateness
    where slot between $1 and $2
    union all
    select t.slot, t.job, case when t.bucket >= 0 then t.finished + t.rescheduled + t.failed else 0 end, t.late
    from prescient.slot_run r
    join prescient.slot_progress t on t.slot = r.slot and t.job <> 0
    where r.slot between $1 and $2
        and r.state = 'open'
        and not exists (select from prescient.slot_claim c where c.slot = r.slot and c.allocated_until >= clock_timestamp())
) as s
left join prescient.job j on j.job = s.job
group by s.slot, s.job, j.name
having sum(s.late) > 0
order by s.slot desc, name
limit $3
