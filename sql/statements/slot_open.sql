-- Opens a slot: its ledger row, and a lease row for each shard that has rows, found by one probe a shard.
-- An empty slot, or one with nothing but rows of paused jobs, is done at once. No row comes back when the slot was opened before.
-- planned is counted up to 2,000 rows; above that it is one shard's count times the shards.
-- The probes are lateral ones: as an exists they would become a hash of the whole table.
with due as (
    select s.shard
    from (select generate_series(0, shards - 1)::smallint as shard from (select shards from prescient.setting limit 1) as setting) as s
    cross join lateral (
        select
        from prescient.future_job f
        where f.next_check_at = $1
            and f.shard = s.shard
            and f.job_exec <> all (array(select job_exec from prescient.paused_job))
        limit 1
    ) as probe
), counted as (
    select count(*) as n
    from (
        select
        from prescient.future_job f
        where f.next_check_at = $1
        limit 2001
    ) as few
), planned as (
    select case
        when n <= 2000 then n
        else (select count(*) from due) * (
            select count(*)
            from prescient.future_job f
            where f.next_check_at = $1 and f.shard = (select min(shard) from due)
        )
    end as n
    from counted
), opened as (
    insert into prescient.slot_run (slot, kind, planned, state, finished_at)
    select
        $1,
        $2,
        n,
        case when exists (select from due) then 'open' else 'done' end,
        case when not exists (select from due) then clock_timestamp() end
    from planned
    on conflict (slot) do nothing
    returning state, planned
), leased as (
    insert into prescient.slot_lease (slot, shard)
    select $1, due.shard
    from due, opened
)
select state, planned
from opened
