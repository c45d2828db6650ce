-- What bounds a schedule, and what is known of one that does not wait.

-- +goose Up
alter table prescient.schedule
    add column deadline_from text,
    add column starts_at     timestamptz,
    add column ends_at       timestamptz,
    add column max_runs      integer,
    add column exclude       text[];
-- One by one, as Citus wants constraints to be added.
alter table prescient.schedule
    add constraint schedule_deadline_from check (deadline_from in ('instant', 'slot'));
alter table prescient.schedule
    add constraint schedule_starts_at check (
        starts_at between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
    );
alter table prescient.schedule
    add constraint schedule_ends_at check (
        ends_at between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
    );
alter table prescient.schedule
    add constraint schedule_max_runs check (max_runs > 0);

comment on column prescient.schedule.deadline is
    'an event that would be published later than that after its slot, or its instant, is dropped; null: none is';
comment on column prescient.schedule.deadline_from is 'what the deadline counts from: instant or slot; null: the instant where slots are a minute wide or less';
comment on column prescient.schedule.starts_at is 'there is no instant before; null: no bound';
comment on column prescient.schedule.ends_at is 'there is no instant from here on; null: no bound';
comment on column prescient.schedule.max_runs is 'the schedule ends when it has published that many events; null: never';
comment on column prescient.schedule.exclude is 'days, days of the week and crontabs whose instants are left out';

-- What a schedule that waits has in its row of future_job, for those that do not: written when one ends or is paused.
alter table prescient.schedule_drop
    add column runs      bigint not null default 0,
    add column last_at   timestamptz,
    add column backfills bigint not null default 0;

comment on column prescient.schedule_drop.runs is 'events that were published, of schedules with max_runs that do not wait';
comment on column prescient.schedule_drop.backfills is 'the transaction in which the last backfill has begun, which alone may publish';
comment on column prescient.schedule_drop.last_at is 'the instant that was published last, of schedules that do not wait';

-- Code from before would publish what lies beyond the bounds, and count nothing.
update prescient.setting
set schema_version = 11,
    usable_from = 11;

-- +goose Down
update prescient.setting
set schema_version = 10,
    usable_from = 1;
alter table prescient.schedule_drop
    drop column backfills,
    drop column last_at,
    drop column runs;
comment on column prescient.schedule.deadline is 'an event that would be published later than that after its slot is dropped; null: none is';
alter table prescient.schedule
    drop column exclude,
    drop column max_runs,
    drop column ends_at,
    drop column starts_at,
    drop column deadline_from;
