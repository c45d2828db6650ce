-- Events, written in the transaction that gives rise to them, and how far their consumers have read.

-- +goose Up

-- Transactions do not commit in the order in which they wrote, so a reader that remembers the last position it has
-- seen would miss those that commit later. mark is what orders events for readers, before position:
--   - it is at least the number of the transaction itself. A reader takes marks below that of the oldest transaction
--     that runs, so all there are of them are committed, and none will be added;
--   - it is at least that of every transaction that had ended when the event was written. So an event that was written
--     after another one was committed is read after it, though its transaction may have begun before. It is no more
--     than that, or the last events on a quiet server would wait for a transaction that never comes.
-- A transaction that has written something and goes on, anywhere on the server, holds back what readers see.
create table prescient.event_outbox (
    mark         xid8        not null default greatest(
        pg_current_xact_id(),
        -- The number of the last transaction that has ended; xid8 has no arithmetic.
        (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8
    ),
    position     bigint      not null generated always as identity,
    id           text        not null,
    source       text        not null,
    type         text        not null,
    subject      text,
    time         timestamptz,
    generated_at timestamptz,
    data         json,
    written_at   timestamptz not null default clock_timestamp(),

    -- event_read, event_prune: in the order of readers.
    constraint event_outbox_pkey primary key (mark, position)
)
-- Vacuumed by what is added, too, and soon after a prune.
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on table prescient.event_outbox is
    'marks are numbers of transactions, which begin anew on another server: empty it and event_consumer after a restore from a dump';

create table prescient.event_consumer (
    name     text        not null,
    mark     xid8        not null,
    position bigint      not null,
    acked_at timestamptz not null default clock_timestamp(),
    constraint event_consumer_pkey primary key (name),
    constraint event_consumer_name check (octet_length(name) between 1 and 200)
);

comment on table prescient.event_consumer is 'the last event that each consumer has acknowledged, and all before it';

update prescient.setting
set schema_version = 7;

-- +goose Down
update prescient.setting
set schema_version = 6;
drop table prescient.event_consumer;
drop table prescient.event_outbox;
