-- Recurring schedules. What is due next is not here: each active schedule is one row of future_job (job_exec and
-- entity_name 'schedule', entity_key the id), whose payload {"at": unix} names the instant that is published next.

-- +goose Up
create table prescient.schedule (
    id         text collate "C" not null,
    crontab    text        not null,
    timezone   text        not null default '',
    payload    jsonb,
    deadline   interval,
    spread     interval    not null default '0',
    misfire    text        not null default 'all',
    anchor     timestamptz not null,
    paused     boolean     not null default false,
    version    integer     not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),

    -- Everything reads schedules by id, or in the order of their ids, byte by byte, so that a prefix is a range.
    constraint schedule_pkey primary key (id),

    constraint schedule_id check (octet_length(id) between 1 and 200),
    constraint schedule_misfire check (misfire in ('all', 'latest', 'skip')),
    constraint schedule_deadline check (deadline > interval '0'),
    constraint schedule_spread check (spread between interval '0' and interval '24 hours'),
    -- Also keeps out the infinities, which the driver cannot scan.
    constraint schedule_anchor check (
        anchor between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
    )
);

comment on column prescient.schedule.timezone is 'a name of the IANA database; empty: UTC, or the one in the crontab';
comment on column prescient.schedule.deadline is 'an event that would be published later than that after its slot is dropped; null: none is';
comment on column prescient.schedule.spread is 'the schedule''s instants are put off by a fixed part of it, given by a hash of the id';
comment on column prescient.schedule.misfire is 'which instants of missed slots are published';
comment on column prescient.schedule.anchor is 'the first instant of @every';

-- Events that were dropped: past the deadline, by the policy, or above its limit. Written by runs alone, which hold the
-- future_job row of the schedule, so that a run never waits for somebody who changes the schedule.
create table prescient.schedule_drop (
    id      text collate "C" not null,
    dropped bigint not null,
    constraint schedule_drop_pkey primary key (id)
)
with (fillfactor = 80);

update prescient.setting
set schema_version = 6;

-- +goose Down
update prescient.setting
set schema_version = 5;
drop table prescient.schedule_drop;
drop table prescient.schedule;
