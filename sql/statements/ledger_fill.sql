-- Records the missed slots from $1 up to but not including $2 that had nothing to do, and returns
-- their number. The current slot by the clock of this moment ($3; null: the database's) and later ones
-- stay out: the clock may have stepped back since $2 was chosen, and their runs are still to come.
-- It probes only the gaps of the ledger, with a lateral join: a "not exists" would become a hash of
-- the whole table.
-- Called by slots.Runner.addFill.
with gap as materialized (
    select s.slot
    from (
        select generate_series(
            prescient.slot_ceil(greatest($1, since), width),
            least($2::timestamptz, prescient.slot_floor(coalesce($3, clock_timestamp()), width)) - interval '1 microsecond',
            width
        ) as slot
        from (select since, width from prescient.setting limit 1) as setting
    ) as s
    where not exists (select from prescient.slot_run r where r.slot = s.slot)
), filled as (
    insert into prescient.slot_run (slot, state, kind, planned, finished_at)
    select gap.slot, 'done', 'catch_up', 0, clock_timestamp()
    from gap
    left join lateral (
        select true as waits
        from prescient.future_job f
        where f.next_check_at = gap.slot
        limit 1
    ) as probe on true
    where probe.waits is null
    on conflict (slot) do nothing
    returning slot
)
select count(*), min(slot), max(slot)
from filled
