-- What all runners together may do of a job: so many checks at once, and so many a second, in all or for each key.

-- +goose Up

-- The places of a run among the checks that may be done at once. Like a claim it is good until it is not renewed.
create table prescient.job_place (
    job             bigint      not null,
    key             text        not null,
    token           bigint      not null,
    places          integer     not null,
    allocated_until timestamptz not null,
    constraint job_place_pkey primary key (job, key, token),
    constraint job_place_places check (places > 0)
)
-- Updated by every heartbeat: room for HOT updates.
with (fillfactor = 50);

comment on table prescient.job_place is 'how many checks of a job a run may do at once, where that is limited over all runs';
comment on column prescient.job_place.key is 'whose limit it is; empty: the job''s';
comment on column prescient.job_place.token is 'that of the run in slot_claim';

create table prescient.job_pace (
    job     bigint      not null,
    key     text        not null,
    free_at timestamptz not null,
    constraint job_pace_pkey primary key (job, key)
)
-- Updated some twenty times a second.
with (fillfactor = 20);

comment on table prescient.job_pace is 'when the next check of a job may begin, where so many a second are allowed over all runs';

-- Gives a run places: as many as it wants of each key, or as are left of those that there are. A key of which it gets none does
-- not come back. What it has it keeps, so it may be asked again, also for more.
-- +goose StatementBegin
create function prescient.take_places(number bigint, keys text[], wanted integer[], most integer, own bigint, lease interval)
returns table (key text, places integer)
language plpgsql
as $$
#variable_conflict use_column
declare
    taken integer[];
begin
    -- The others' places are counted by a statement after the lock, and so as they are.
    perform pg_advisory_xact_lock(hashtextextended('prescient.places ' || number, 0));
    -- Those of any key: nobody may ever ask for that of a run that has died.
    delete from prescient.job_place p
    where p.job = number and p.token <> own and p.allocated_until < statement_timestamp();
    taken := array(
        select coalesce((
            select sum(t.places)
            from prescient.job_place t
            where t.job = number and t.key = w.key and t.token <> own
        ), 0)::integer
        from unnest(keys) with ordinality as w (key, nth)
        order by w.nth
    );
    return query
    insert into prescient.job_place as p (job, key, token, places, allocated_until)
    select number, w.key, own, least(w.wanted, most - w.taken), statement_timestamp() + lease
    from unnest(keys, wanted, taken) as w (key, wanted, taken)
    where w.taken < most
    on conflict (job, key, token) do update
    set places = greatest(p.places, excluded.places),
        allocated_until = excluded.allocated_until
    returning p.key, p.places;
end
$$;
-- +goose StatementEnd

-- Gives a run the next instants at which so many checks may begin, one every spacing. Returns how far ahead the first is, which
-- may be in the past. With one new key of a hundred those are forgotten of which nobody has asked for an hour: they are found by
-- looking through all. Runs have a few instants each, so one that is further ahead than ten minutes is of a clock that was set back.
-- +goose StatementBegin
create function prescient.take_pace(number bigint, of_key text, checks integer, spacing interval)
returns interval
language plpgsql
as $$
declare
    taken     interval := checks * spacing;
    next_free timestamptz;
    is_new    boolean;
begin
    -- What a server that dies forgets are instants that have passed.
    perform set_config('synchronous_commit', 'off', true);
    insert into prescient.job_pace as p (job, key, free_at)
    values (number, of_key, statement_timestamp() + taken)
    on conflict (job, key) do update
    -- A sum without a time zone is immutable.
    set free_at = greatest(
        (least(p.free_at at time zone 'UTC', excluded.free_at at time zone 'UTC' - taken + interval '10 minutes') + taken) at time zone 'UTC',
        excluded.free_at
    )
    returning p.free_at, p.xmax = 0 into next_free, is_new;
    if is_new and random() < 0.01 then
        delete from prescient.job_pace p
        where p.job = number and p.key in (
            select o.key
            from prescient.job_pace o
            where o.job = number and o.free_at < statement_timestamp() - interval '1 hour'
            for update skip locked
        );
    end if;
    return next_free - taken - clock_timestamp();
end
$$;
-- +goose StatementEnd

update prescient.setting
set schema_version = 9;

-- +goose Down
update prescient.setting
set schema_version = 8;
drop function prescient.take_pace(bigint, text, integer, interval);
drop function prescient.take_places(bigint, text[], integer[], integer, bigint, interval);
drop table prescient.job_pace;
drop table prescient.job_place;
