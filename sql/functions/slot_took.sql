-- Returns how long runners have worked on a slot, in microseconds: until its last outcome (last_at),
-- or until now if it is open and a runner is at it (live). 0 for a slot that was closed without an
-- outcome: what it waited for was no work. The time in which it was open without a runner does not
-- count: it waited for a job that no run knew, or for another runner after a kill. Null: the slot is
-- open, without an outcome and without a runner.
-- The first parameters are columns of slot_run.
create or replace function prescient.slot_took(
    state       text,
    worked      interval,
    opened_at   timestamptz,
    resumed_at  timestamptz,
    finished_at timestamptz,
    last_at     timestamptz,
    live        boolean
)
returns bigint
language sql
stable
parallel safe
as $$
    select (extract(epoch from worked + greatest(interval '0', ended.at - coalesce(resumed_at, opened_at))) * 1000000)::bigint
    from (
        select case
            when state = 'open' and live then clock_timestamp()
            when last_at is null and finished_at is not null then coalesce(resumed_at, opened_at)
            else last_at
        end as at
    ) as ended
    where ended.at is not null
$$;
