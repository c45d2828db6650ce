-- Deletes the oldest events, at most so many: those that were written before an instant and that
-- every consumer has acknowledged. A null instant takes events of any age, if there is a consumer.
-- unread also deletes events that a consumer has not read. It records how far it went, for
-- event_lost, and returns the number of events.
-- It deletes by ctid, which the snapshot keeps, so no plan reads more rows than these.
create or replace function prescient.prune_events(before timestamptz, most bigint, unread boolean)
returns bigint
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
declare
    ended   xid8        := prescient.oldest_active_xid();
    now     timestamptz := clock_timestamp();
    slowest prescient.event_consumer;
    read    boolean;
    removed bigint;
begin
    -- Two statements: Citus refuses a delete by ctid that finds the ctid in the same statement.
    select c.* into slowest from prescient.event_consumer c order by c.mark, c.position limit 1;
    read := found;
    with gone as (
        delete from prescient.event_outbox
        where ctid = any (array(
            select o.ctid
            from (
                select ctid, mark, position, written_at
                from prescient.event_outbox
                where mark < ended
                order by mark, position
                limit most
            ) as o
            where coalesce(o.written_at < before, read)
                and (unread or not read or (o.mark, o.position) <= (slowest.mark, slowest.position))
        ))
        returning mark, position, written_at
    ), noted as (
        insert into prescient.event_watermark as r (mark, position, written_at, removed_at)
        select mark, position, written_at, now
        from gone
        order by mark desc, position desc
        limit 1
        on conflict (singleton) do update
        set mark = excluded.mark, position = excluded.position, written_at = excluded.written_at, removed_at = excluded.removed_at
        where (excluded.mark, excluded.position) > (r.mark, r.position)
            or r.mark >= ended -- of another server, from before a restore
    )
    select count(*) into removed from gone;
    return removed;
end
$$;
