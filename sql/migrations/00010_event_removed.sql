-- How far the outbox was pruned, so that a reader that fell behind is told.

-- +goose Up
create table prescient.event_removed (
    only_row   boolean     not null default true,
    mark       xid8        not null,
    position   bigint      not null,
    written_at timestamptz not null,
    removed_at timestamptz not null default clock_timestamp(),
    constraint event_removed_pkey primary key (only_row),
    constraint event_removed_only_row check (only_row)
);

comment on table prescient.event_removed is 'the last event, in the order of readers, that was ever removed from event_outbox; no row: none was';
comment on table prescient.event_outbox is
    'marks are numbers of transactions, which begin anew on another server: empty it, event_consumer and event_removed after a restore from a dump';

-- The events after one, of those before which none will come any more; none where some after it were removed, unless
-- that is the beginning.
-- +goose StatementBegin
create function prescient.read_events(after_mark xid8, after_position bigint, most bigint)
returns setof prescient.event_outbox
language plpgsql
as $$
declare
    ended xid8 := prescient.ended_before();
begin
    return query
    select o.*
    from prescient.event_outbox o
    where (o.mark, o.position) > (after_mark, after_position)
        and o.mark < ended
        and (
            (after_mark, after_position) = ('0'::xid8, 0)
            or not exists (select from prescient.event_removed r where (r.mark, r.position) > (after_mark, after_position))
        )
    order by o.mark, o.position
    limit most;
end
$$;
-- +goose StatementEnd

-- Deletes of the oldest events, at most so many, those that were written before an instant and that every consumer has
-- acknowledged; where that is null those of any age, if there is a consumer; with unread whoever has not read them. Notes how
-- far that went, for event_lost, and returns how many there were. By ctid, which the snapshot keeps: no plan goes through more than
-- those.
-- +goose StatementBegin
create function prescient.prune_events(before timestamptz, most bigint, unread boolean)
returns bigint
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
declare
    ended   xid8        := prescient.ended_before();
    now     timestamptz := clock_timestamp();
    slowest prescient.event_consumer;
    read    boolean;
    removed bigint;
begin
    -- Apart: Citus refuses a statement in which a delete by ctid looks for it.
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
        insert into prescient.event_removed as r (mark, position, written_at, removed_at)
        select mark, position, written_at, now
        from gone
        order by mark desc, position desc
        limit 1
        on conflict (only_row) do update
        set mark = excluded.mark, position = excluded.position, written_at = excluded.written_at, removed_at = excluded.removed_at
        where (excluded.mark, excluded.position) > (r.mark, r.position)
    )
    select count(*) into removed from gone;
    return removed;
end
$$;
-- +goose StatementEnd

update prescient.setting
set schema_version = 10;

-- +goose Down
update prescient.setting
set schema_version = 9;
comment on table prescient.event_outbox is
    'marks are numbers of transactions, which begin anew on another server: empty it and event_consumer after a restore from a dump';
drop function prescient.prune_events(timestamptz, bigint, boolean);
drop function prescient.read_events(xid8, bigint, bigint);
drop table prescient.event_removed;
