-- Returns the events after a position, up to those before which no more can come. It returns none
-- if later events were already removed, unless the position is the beginning.
create or replace function prescient.read_events(after_mark xid8, after_position bigint, most bigint)
returns setof prescient.event_outbox
language plpgsql
as $$
declare
    ended xid8 := prescient.oldest_active_xid();
begin
    return query
    select o.*
    from prescient.event_outbox o
    where (o.mark, o.position) > (after_mark, after_position)
        and o.mark < ended
        and (
            (after_mark, after_position) = ('0'::xid8, 0)
            or not exists (select from prescient.event_watermark r where (r.mark, r.position) > (after_mark, after_position) and r.mark < ended)
        )
    order by o.mark, o.position
    limit most;
end
$$;
