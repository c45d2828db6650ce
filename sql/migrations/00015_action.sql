-- What operators have asked for, and when a schedule has dropped an event last.

-- +goose Up
create table prescient.action (
    id        bigint      not null generated always as identity,
    at        timestamptz not null default clock_timestamp(),
    ended_at  timestamptz,
    by_role   text        not null default coalesce(nullif(current_setting('role'), 'none'), session_user),
    actor     text        not null,
    what      text        not null,
    target    text        not null,
    plan      text        not null,
    row_count bigint      not null,
    slots     bigint      not null,
    schedules bigint      not null,
    events    bigint      not null,
    outcome   text        not null default 'running',
    result    text        not null default '',

    -- board_actions: the newest first.
    constraint action_pkey primary key (id),
    constraint action_outcome check (outcome in ('running', 'done', 'failed', 'stopped')),
    constraint action_ended check ((outcome = 'running') = (ended_at is null))
);

comment on table prescient.action is 'what operators have asked prescient serve for, with what they were told that it would do';
comment on column prescient.action.actor is 'the name of the token, and the address it came from';
comment on column prescient.action.plan is 'what they confirmed; row_count, slots, schedules and events: its numbers';
comment on column prescient.action.outcome is 'running: it goes on, or its server died';

alter table prescient.schedule_drop
    add column dropped_at timestamptz;

comment on column prescient.schedule_drop.dropped_at is 'when an event was dropped last; null: none was';

-- board_misfires: the schedules that have dropped events last.
create index schedule_drop_dropped_at on prescient.schedule_drop (dropped_at) where dropped_at is not null;

update prescient.setting
set schema_version = 15;

-- +goose Down
update prescient.setting
set schema_version = 14;
drop index prescient.schedule_drop_dropped_at;
alter table prescient.schedule_drop
    drop column dropped_at;
drop table prescient.action;
