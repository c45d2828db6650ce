-- Opens a slot that is done for the stragglers in it. No row comes back when there are none.
with due as (
    select f.shard, count(*) as n
    from prescient.future_job f
    where f.next_check_at = $1
        and f.job_exec <> all (array(select job_exec from prescient.paused_job))
    group by f.shard
), opened as (
    update prescient.slot_run
    set state = 'open',
        kind = 'catch_up',
        planned = planned + (select sum(n) from due),
        finished_at = null
    where slot = $1 and state = 'done' and exists (select from due)
    returning state, planned
), leased as (
    insert into prescient.slot_lease (slot, shard)
    select $1, due.shard
    from due, opened
)
select state, planned
from opened
