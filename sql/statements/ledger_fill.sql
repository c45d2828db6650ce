-- Records missed slots that had nothing to do, from $1 up to but not including $2, and returns how many.
with filled as (
    insert into prescient.slot_run (slot, state, kind, planned, finished_at)
    select s.slot, 'done', 'catch_up', 0, clock_timestamp()
    from (
        select generate_series(prescient.slot_ceil(greatest($1, since), width), $2::timestamptz - interval '1 microsecond', width) as slot
        from prescient.setting
    ) as s
    where not exists (select from prescient.slot_run r where r.slot = s.slot)
        and not exists (select from prescient.future_job f where f.next_check_at = s.slot)
    on conflict (slot) do nothing
    returning slot
)
select count(*), min(slot), max(slot)
from filled
