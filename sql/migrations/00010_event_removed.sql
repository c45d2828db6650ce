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

update prescient.setting
set schema_version = 10;

-- +goose Down
update prescient.setting
set schema_version = 9;
comment on table prescient.event_outbox is
    'marks are numbers of transactions, which begin anew on another server: empty it and event_consumer after a restore from a dump';
drop table prescient.event_removed;
