-- When no lease of an open slot is left: opens the shards that have rows all the same, committed into them after
-- they were found empty or closed. One probe a shard.
insert into prescient.slot_lease (slot, shard)
select $1, s.shard
from (select generate_series(0, shards - 1)::smallint as shard from prescient.setting) as s
where not exists (select from prescient.slot_lease where slot = $1)
    and exists (
        select
        from prescient.future_job f
        where f.next_check_at = $1
            and f.shard = s.shard
            and f.job_exec <> all (array(select job_exec from prescient.paused_job))
    )
