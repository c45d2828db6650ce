-- The settings that belong to the data rather than to a process: the CHECK on future_job depends on the width.

-- +goose Up
-- For who runs the script by hand: Migrate asks before it makes anything.
-- +goose StatementBegin
do $$
begin
    if current_setting('server_version_num')::integer < 150000 then
        raise exception 'PostgreSQL 15 or newer is needed, and this is %', current_setting('server_version')
            using errcode = 'feature_not_supported';
    end if;
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception 'the encoding of the database is %, and must be UTF8', current_setting('server_encoding')
            using errcode = 'feature_not_supported',
                hint = 'Create another one, with: create database ... encoding ''UTF8'' template template0';
    end if;
end
$$;
-- +goose StatementEnd

create table prescient.setting (
    only_row       boolean     not null default true,
    width          interval    not null default '15 minutes',
    since          timestamptz not null,
    schema_version integer     not null,
    usable_from    integer     not null default 1,
    constraint setting_pkey primary key (only_row),
    constraint setting_only_row check (only_row),
    constraint setting_width check (
        width between interval '1 second' and interval '24 hours'
        and extract(epoch from width) = floor(extract(epoch from width))
        and 86400 % extract(epoch from width)::integer = 0
        -- Adding a day adds 23 hours where summer time begins.
        and extract(year from width) = 0
        and extract(month from width) = 0
        and extract(day from width) = 0
    )
);

comment on column prescient.setting.width is 'distance between two slots; changed by prescient.set_width alone';
comment on column prescient.setting.usable_from is 'the lowest version of code that may use the schema: a migration that does more than add raises it';
comment on column prescient.setting.since is 'first slot of this width: the ledger has no gaps before it';

-- The grid starts at the Unix epoch. Every width divides 24 hours, so every grid contains every midnight UTC.
-- Adding an interval is not immutable in general (days and months depend on the time zone). A function that says it is would
-- be called for each row; as stable it is a part of the statement that uses it.
-- +goose StatementBegin
create function prescient.slot_floor(at timestamptz, width interval)
returns timestamptz
language sql
immutable
strict
parallel safe
as $$
    select date_bin(width, at, timestamptz '1970-01-01 00:00:00+00')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function prescient.slot_ceil(at timestamptz, width interval)
returns timestamptz
language sql
stable
strict
parallel safe
as $$
    select date_bin(width, at + (width - interval '1 microsecond'), timestamptz '1970-01-01 00:00:00+00')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function prescient.slot_ceil(at timestamptz)
returns timestamptz
language sql
stable
strict
parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
    select prescient.slot_ceil(at, width)
    from prescient.setting
$$;
-- +goose StatementEnd
revoke all on function prescient.slot_ceil(timestamptz) from public;

-- The settings, for whoever may execute functions and nothing else.
-- +goose StatementBegin
create function prescient.settings()
returns table (width interval, since timestamptz, schema_version integer, usable_from integer)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select s.width, s.since, s.schema_version, s.usable_from
    from prescient.setting s
$$;
-- +goose StatementEnd
revoke all on function prescient.settings from public;

-- The number by which place tells keys apart: the first 60 bits of the SHA-256 of a text. grid.Hash of package slots/grid
-- returns the same.
create function prescient.place_hash(key text)
returns bigint
language sql
stable
strict
parallel safe
as $$
    select ('x' || left(encode(sha256(convert_to(key, 'UTF8')), 'hex'), 15))::bit(60)::bigint
$$;

-- What place_hash is given for a key of future_job. A null item_key, that of an anonymous row, is as ''.
create function prescient.place_key(job_exec text, entity_name text, entity_key text, item_key text)
returns text
language sql
immutable
parallel safe
as $$
    select job_exec || chr(31) || entity_name || chr(31) || entity_key || chr(31) || coalesce(item_key, '')
$$;

-- The seconds of a window; null: there is none.
create function prescient.within_seconds(within interval)
returns integer
language sql
immutable
parallel safe
as $$
    select case when within is not null then nullif(greatest(-1, least(2147483647, floor(date_part('epoch', within))))::integer, 0) end
$$;

-- The number of slots from first on, which is at or after an instant, that are before `within` seconds after it; at least 1.
create function prescient.place_count(first timestamptz, at timestamptz, within integer, width interval)
returns bigint
language sql
stable
parallel safe
as $$
    select greatest(ceil((within - date_part('epoch', first - at)) / date_part('epoch', width))::bigint, 1)
$$;

-- The slot of a check where any will do from first, the first one at or after an instant, up to, but not including,
-- `within` seconds after that; null: first alone. Which of them follows from the hash. Where it is before earliest, it is one of
-- those that are left, or earliest. Grid.Place of package slots/grid returns the same.
-- Stable, and no more than an expression, so that it is a part of the statement that uses it: a call would cost more
-- than all the rest.
create function prescient.place(
    first    timestamptz,
    at       timestamptz,
    within   integer,
    earliest timestamptz,
    width    interval,
    hash     bigint
)
returns timestamptz
language sql
stable
parallel safe
as $$
    select case
        when within is null then greatest(first, earliest)
        when first >= earliest or first + hash % prescient.place_count(first, at, within, width) * width >= earliest
            then first + hash % prescient.place_count(first, at, within, width) * width
        else earliest + hash / prescient.place_count(first, at, within, width) % greatest(
            prescient.place_count(first, at, within, width) - (date_part('epoch', earliest - first) / date_part('epoch', width))::bigint, 1
        ) * width
    end
$$;

-- The slot a check asked for at an instant goes to: never before the instant, and never a slot that has begun. With
-- within, in seconds, it is the one that place gives a key.
-- It takes the number of its transaction before it asks the clock. So whoever opens the slot it chooses has a higher
-- number, and knows from that which transactions may still bring rows into it; see open_slot.
-- The clock is asked here, where the number was taken, and not where a query finds the setting: on Citus that is another server.
-- In PL/pgSQL, which keeps the plan: an SQL function is planned anew by each enqueue, at a third of its cost.
-- +goose StatementBegin
create function prescient.slot_target(
    at     timestamptz,
    clock  timestamptz default null,
    within integer default null,
    key    text default null
)
returns timestamptz
language plpgsql
volatile
as $$
#variable_conflict use_column
declare
    width    interval;
    first    timestamptz;
    earliest timestamptz;
    hash     bigint;
begin
    perform pg_current_xact_id();
    clock := coalesce(clock, clock_timestamp());
    if within is null then
        return (
            select greatest(prescient.slot_ceil(at, width), prescient.slot_floor(clock, width) + width)
            from prescient.setting
        );
    end if;
    select s.width into width from prescient.setting s;
    first := prescient.slot_ceil(at, width);
    earliest := prescient.slot_floor(clock, width) + width;
    hash := prescient.place_hash(key);
    return prescient.place(first, at, within, earliest, width, hash);
end
$$;
-- +goose StatementEnd

-- Transactions with a number below this one have ended, and what they have written is seen by the next statement.
-- On Citus the number is the coordinator's, which all clients have in common and which stays when the schema moves. A transaction
-- that has written on several servers ends there while it may still be prepared where the schema is: as long as
-- one is, nothing is known. prepared: false for what was known before, such as that an event can be read.
-- +goose StatementBegin
create function prescient.ended_before(prepared boolean default true)
returns xid8
language plpgsql
as $$
declare
    ended xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
    if prepared and exists (select from prescient.setting where exists (select from pg_prepared_xact() as p where starts_with(p.gid, 'citus_'))) then
        return '0';
    end if;
    return ended;
end
$$;
-- +goose StatementEnd

-- For statements of the transaction that come after it: where they read slots, the planner is to go through the slot index in
-- its order; see SlotIndexOnly. A setting is made by a query of a table where that table is, which on Citus is another server.
-- A procedure, which returns no rows.
-- +goose StatementBegin
create procedure prescient.slot_index_only()
language plpgsql
as $$
begin
    perform
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_sort', 'off', true),
        set_config('max_parallel_workers_per_gather', '0', true),
        set_config('jit', 'off', true)
    from prescient.setting;
end
$$;
-- +goose StatementEnd

-- Sets how long the statements that come after it wait for a lock: here, and where the tables are.
-- +goose StatementBegin
create procedure prescient.wait_for_locks(most text)
language plpgsql
as $$
begin
    perform set_config('lock_timeout', most, true);
    perform set_config('lock_timeout', most, true) from prescient.setting;
end
$$;
-- +goose StatementEnd

insert into prescient.setting (since, schema_version)
values (prescient.slot_floor(clock_timestamp(), interval '15 minutes') + interval '15 minutes', 1);

-- Nobody else would: autovacuum leaves a table of one row alone. What the server knows nothing about it takes for 570 rows, and what is
-- joined with them for worth compiling.
analyze prescient.setting;

-- +goose Down
drop procedure prescient.wait_for_locks(text);
drop procedure prescient.slot_index_only();
drop function prescient.ended_before(boolean);
drop function prescient.slot_target(timestamptz, timestamptz, integer, text);
drop function prescient.place(timestamptz, timestamptz, integer, timestamptz, interval, bigint);
drop function prescient.place_count(timestamptz, timestamptz, integer, interval);
drop function prescient.place_hash(text);
drop function prescient.place_key(text, text, text, text);
drop function prescient.within_seconds(interval);
drop function prescient.settings();
drop function prescient.slot_ceil(timestamptz);
drop function prescient.slot_ceil(timestamptz, interval);
drop function prescient.slot_floor(timestamptz, interval);
drop table prescient.setting;
