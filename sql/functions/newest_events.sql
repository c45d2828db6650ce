-- Returns the newest of the events that read_events would return from the beginning, oldest first.
-- Called by event_newest. It reads the bound before the query takes its snapshot, as read_events
-- does. So a reader that continues after the last of these events misses none.
create or replace function prescient.newest_events(most bigint)
returns setof prescient.event_outbox
language plpgsql
as $$
declare
    ended xid8 := prescient.oldest_active_xid();
begin
    return query
    select newest.*
    from (
        select o.*
        from prescient.event_outbox o
        where o.mark < ended
        order by o.mark desc, o.position desc
        limit most
    ) as newest
    order by newest.mark, newest.position;
end
$$;
