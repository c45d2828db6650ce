-- Gives the outbox of another server, as after a restore from a dump, marks that this server has
-- passed. Marks are transaction numbers, so readers would wait until this server reaches them. The
-- events of the other server come before all others and keep their order. Its consumers keep their
-- place among them, and so does the last event that was removed. Its slots forget its transactions,
-- which have ended. Returns how many events and consumers have other positions now. Idempotent.
create or replace function prescient.renumber_events(out events bigint, out consumers bigint)
language plpgsql
set lock_timeout = '3s'
as $$
declare
    used    constant xid8 := '1'; -- no transaction has this number
    highest xid8;
    next    xid8; -- this server has not come to it
    until   timestamptz; -- of the other server
    removed prescient.event_watermark;
    e       prescient.event_outbox;
begin
    events := 0;
    consumers := 0;
    -- The highest number first: what commits meanwhile is below the next one.
    select greatest(
        (select max(o.mark) from prescient.event_outbox o),
        (select max(c.mark) from prescient.event_consumer c),
        (select r.mark from prescient.event_watermark r),
        (select max(s.horizon) from prescient.slot_run s)
    )
    into highest;
    next := pg_snapshot_xmax(pg_current_snapshot());
    if highest is null or highest < next then
        return;
    end if;
    lock table prescient.slot_run, prescient.event_outbox, prescient.event_consumer, prescient.event_watermark in exclusive mode;
    next := pg_snapshot_xmax(pg_current_snapshot());
    update prescient.slot_run s set horizon = '0' where s.horizon >= next;

    select greatest(
        (select max(o.written_at) from prescient.event_outbox o where o.mark >= next),
        (select max(c.acked_at) from prescient.event_consumer c where c.mark >= next),
        (select r.removed_at from prescient.event_watermark r where r.mark >= next)
    )
    into until;
    select * into removed from prescient.event_watermark r where r.mark >= next or r.removed_at <= until;
    -- A place is the number of events before it, with the removed one.
    update prescient.event_consumer c
    set mark = used,
        position = (
            select count(*)
            from prescient.event_outbox o
            where (o.mark, o.position) <= (c.mark, c.position) and (o.mark >= next or o.written_at <= until)
        ) + coalesce((removed.mark, removed.position) <= (c.mark, c.position), false)::integer
    where (c.mark >= next or c.acked_at <= until) and (c.mark, c.position) > ('0'::xid8, 0);
    get diagnostics consumers = row_count;
    update prescient.event_watermark r
    set mark = used,
        position = 1 + (
            select count(*)
            from prescient.event_outbox o
            where (o.mark, o.position) <= (removed.mark, removed.position) and (o.mark >= next or o.written_at <= until)
        )
    where r.mark = removed.mark;
    for e in
        with gone as (
            delete from prescient.event_outbox o
            where o.mark >= next or o.written_at <= until
            returning o.*
        )
        select * from gone order by mark, position
    loop
        events := events + 1;
        e.position := events + coalesce((removed.mark, removed.position) <= (e.mark, e.position), false)::integer;
        e.mark := used;
        insert into prescient.event_outbox overriding system value values (e.*);
    end loop;
end
$$;
