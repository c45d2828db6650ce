-- Every table, with its types and indexes. migrate up applies the functions in ../functions after the last migration.

-- For the script that `migrate print` writes. Migrate checks both before it creates anything.
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

-- The migrator makes this table with a timestamp in the session's time zone. Another session may have another zone, and
-- an hour comes twice when summer time ends.
alter table prescient.schema_migration alter column tstamp type timestamptz;

-- The settings that belong to the data rather than to a process: the CHECK on future_job depends on the width.
create table prescient.setting (
    singleton       boolean     not null default true,
    width          interval    not null default '15 minutes',
    since          timestamptz not null,
    schema_version integer     not null,
    min_code_version    integer     not null default 1,
    functions      text        not null default '',
    functions_at   timestamptz,
    store          uuid        not null default gen_random_uuid(),
    draining_since timestamptz,
    draining_by    text,
    mover          bigint,
    constraint setting_pkey primary key (singleton),
    constraint setting_singleton check (singleton),
    constraint setting_width check (
        width between interval '1 second' and interval '24 hours'
        and extract(epoch from width) = floor(extract(epoch from width))
        and 86400 % extract(epoch from width)::integer = 0
        -- Adding a day adds 23 hours where summer time begins.
        and extract(year from width) = 0
        and extract(month from width) = 0
        and extract(day from width) = 0
    ),
    constraint setting_draining check ((draining_since is null) = (draining_by is null))
);

comment on column prescient.setting.width is 'distance between two slots; changed by prescient.set_width alone';
comment on column prescient.setting.min_code_version is 'the lowest version of code that may use the schema: a migration that does more than add raises it';
comment on column prescient.setting.since is 'first slot of this width: the ledger has no gaps before it';
comment on column prescient.setting.functions is 'the hash of the functions in the schema, as migrate up applied them; functions_at: when';
comment on column prescient.setting.store is 'identifies this store among others, in the source of its events and when rows move; a copy that runs beside the original needs another one';
comment on column prescient.setting.draining_since is 'since when new rows belong into other stores; null: the store is not drained';
comment on column prescient.setting.mover is 'the only mover that may take rows away to other stores: the last one that began';

insert into prescient.setting (since, schema_version)
values (
    date_bin(interval '15 minutes', clock_timestamp(), timestamptz '1970-01-01 00:00:00+00') + interval '15 minutes',
    1
);

-- Autovacuum never analyzes a table of one row. Without statistics the planner assumes 570 rows, and compiles what joins them.
analyze prescient.setting;

-- A runner, an actor, an application, a role, a time zone. 500 characters have 2000 bytes at most.
create domain prescient.label as text constraint label_is_at_most_2000_bytes check (octet_length(value) <= 2000);
create domain prescient.error_text as text constraint error_is_at_most_2000_bytes check (octet_length(value) <= 2000);

-- The jobs by number, and the cache of pending checks: nothing old in it.
create table prescient.job (
    job       bigint not null,
    name      text collate "C"   not null,
    paused_at timestamptz,
    paused_by prescient.label,
    registered_at timestamptz,
    sla interval,
    told_on date,
    constraint job_pkey primary key (job),
    -- Every enqueue, cancel and reschedule finds its job by name.
    constraint job_name_key unique (name),
    -- With the keys of future_job the sum stays below what a b-tree entry may hold.
    constraint job_name check (octet_length(name) between 1 and 200),
    constraint job_paused check ((paused_at is null) = (paused_by is null))
);

comment on table prescient.job is 'the number of each job_exec that was ever enqueued, paused or registered; a name keeps its number for ever';
comment on column prescient.job.paused_at is 'since when runs claim no rows of the job; null: it is not paused';
comment on column prescient.job.registered_at is 'when a run last registered the job, to the hour; null: never';
comment on column prescient.job.told_on is 'the day (UTC) on which the log of a catch-up last named the job, whose rows it left; null: never';
comment on column prescient.job.sla is 'how long after its slot a check may begin at the latest, as the last run registered it; null: no SLA';

-- A job's number follows from its name and this secret; see function job_number. Only the owner may read it: who knows it
-- can find a name whose number is that of another job.
create table prescient.job_secret (
    singleton boolean not null default true,
    secret    bytea   not null default uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
    constraint job_secret_pkey primary key (singleton),
    constraint job_secret_singleton check (singleton)
);

comment on table prescient.job_secret is 'what the numbers of jobs follow from, beside their names; never changes';

insert into prescient.job_secret default values;

-- The keys compare by their bytes. The order of a language changes with an upgrade of the system: then the indexes do not
-- find keys that wait, and these wait twice.
--
-- The values of a row's columns. They are domains, because every statement that writes a row reads the checks of the
-- table from the catalog again: that was a quarter of the server's time for an enqueue. The names together stay below
-- the size of a b-tree entry.
create domain prescient.entity_name as text collate "C" constraint entity_name_is_1_to_200_bytes check (octet_length(value) between 1 and 200);
create domain prescient.entity_key as text collate "C" constraint entity_key_is_1_to_500_bytes check (octet_length(value) between 1 and 500);
create domain prescient.item_key as text collate "C" constraint item_key_is_at_most_500_bytes check (octet_length(value) <= 500);
create domain prescient.group_key as text collate "C" constraint group_key_is_1_to_500_bytes check (octet_length(value) between 1 and 500);

-- Also keeps out the infinities, which the driver cannot scan.
create domain prescient.instant as timestamptz constraint future_job_in_range
    check (value between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00');
create domain prescient.counter as integer constraint future_job_counts check (value >= 0);
-- The size as a text, because runs read it as a text: 2 kB of numbers such as 1e131071 are a gigabyte. The error of a
-- domain has the name of its constraint in it, so the name says the limit.
-- The levels, because Go writes at most 10,000 levels of JSON: one row nested deeper would break each list that has it.
create domain prescient.payload as jsonb
    constraint payload_is_at_most_1048576_bytes_as_text check (octet_length(value::text) <= 1048576)
    constraint payload_is_nested_at_most_5000_levels_deep check (
        not jsonb_path_exists(value, 'strict $.**{5000} ? (@.type() == "array" || @.type() == "object")')
    );
create domain prescient.seconds_within as integer constraint future_job_within check (value between 1 and 31622400);

-- What an enqueue requested on a row whose slot had begun. Its domains check the values at once, because a run writes
-- the row that comes of the request.
create type prescient.request as (
    check_at       prescient.instant,
    within         prescient.seconds_within,
    payload        prescient.payload,
    group_key      prescient.group_key,
    on_conflict    text,
    max_wait       interval,
    enqueued_at    timestamptz,
    enqueued_by    prescient.label,
    enqueued_app   prescient.label,
    enqueued_actor prescient.label,
    enqueued_traceparent prescient.label,
    unless_ended_within prescient.seconds_within
);

create table prescient.future_job (
    id             bigint                not null generated always as identity,
    job            bigint                not null,
    entity_name    prescient.entity_name not null,
    entity_key     prescient.entity_key  not null,
    item_key       prescient.item_key             default '',
    group_key      prescient.group_key,
    first_check_at prescient.instant     not null,
    next_check_at  prescient.instant     not null,
    check_count    prescient.counter     not null default 0,
    error_count    prescient.counter     not null default 0,
    last_error     prescient.error_text,
    spent          interval              not null default '0',
    -- Beside the other columns that a move changes: WAL holds everything between the first and the last changed byte.
    journal          text,
    payload        prescient.payload,
    enqueued_at    timestamptz           not null default clock_timestamp(),
    -- The role of the caller: current_user is the owner in a function that runs with the owner's rights.
    enqueued_by    prescient.label       not null default coalesce(nullif(current_setting('role'), 'none'), session_user),
    enqueued_app   prescient.label                default nullif(current_setting('application_name'), ''),
    enqueued_actor prescient.label                default left(nullif(current_setting('prescient_caller.actor', true), ''), 500),
    enqueued_traceparent prescient.label                default left(nullif(current_setting('prescient_caller.traceparent', true), ''), 500),
    requested_for      timestamptz,
    requested_within   prescient.seconds_within,
    -- Null in nearly every row, and then it takes no byte.
    request        prescient.request,

    -- The slot index. A run reads, deletes and moves rows by equality on the slot and the job, in the order of ids.
    -- id has no index of its own: each further index costs 30 to 100 % of the write rate.
    constraint future_job_pkey primary key (next_check_at, job, id),

    constraint future_job_on_grid check (
        next_check_at = date_bin(interval '15 minutes', next_check_at, timestamptz '1970-01-01 00:00:00+00')
    )
)
-- The rows of a slot leave together. Vacuum runs soon after, so that the next slot uses their space.
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column prescient.future_job.job is 'the number of the job_exec, see table job and function find_job';
comment on column prescient.future_job.item_key is 'distinguishes checks of one job on one entity; null: anonymous, no key finds the row';
comment on column prescient.future_job.group_key is 'a job that is registered for groups checks the rows of one group together; null: the entity is the group';
comment on column prescient.future_job.first_check_at is 'the first slot of the row; never changes';
comment on column prescient.future_job.check_count is 'checks that returned without an error';
comment on column prescient.future_job.error_count is 'errors in a row since the last check without one';
comment on column prescient.future_job.enqueued_app is 'the application_name of the caller that enqueued it; enqueued_actor: the setting prescient_caller.actor, at most 500 characters';
comment on column prescient.future_job.enqueued_traceparent is 'the W3C traceparent of the caller: the setting prescient_caller.traceparent, at most 500 characters';
comment on column prescient.future_job.requested_for is 'the requested instant, or the one that a rule has written since; null: first_check_at';
comment on column prescient.future_job.requested_within is 'seconds after the requested instant in which any slot was right; null: no window';
comment on column prescient.future_job.request is
    'what an enqueue requested while the row was due; the record of its check honours it; null: nothing';
comment on column prescient.future_job.journal is 'what has happened to the row, see function journal_entry; null: nothing';
comment on column prescient.future_job.spent is 'run time of all checks so far';

-- The natural key: enqueue's on conflict, cancel and reschedule by key, cancel by entity (its first two columns).
create unique index future_job_key
on prescient.future_job (entity_name, entity_key, job, item_key)
where item_key is not null;

-- group_read: the due rows of a group.
create index future_job_group
on prescient.future_job (group_key, next_check_at)
where group_key is not null;

-- How a row ended. It is a domain, because every statement that ends a row would read a check of the table from the
-- catalog again: a tenth of the cost of recording a row.
create domain prescient.outcome as text
    constraint outcome_named check (value in ('done', 'cancelled', 'replaced', 'failed', 'max_checks', 'horizon', 'past', 'deadline', 'skipped'));

-- Rows that ended, and how. There is one partition a month, so that retention drops a table and deletes nothing.
create table prescient.future_job_history (
    id             bigint                not null,
    job_exec       prescient.entity_name not null,
    entity_name    prescient.entity_name not null,
    entity_key     prescient.entity_key  not null,
    item_key       prescient.item_key,
    group_key      prescient.group_key,
    first_check_at timestamptz           not null,
    slot           timestamptz           not null,
    check_count    integer               not null,
    error_count    integer               not null,
    last_error     prescient.error_text,
    spent          interval              not null,
    payload        prescient.payload,
    enqueued_at    timestamptz           not null,
    enqueued_by    prescient.label       not null,
    enqueued_app   prescient.label,
    enqueued_actor prescient.label,
    requested_for      timestamptz,
    journal          text,
    outcome        prescient.outcome     not null,
    finished_at    timestamptz           not null default clock_timestamp(),
    lateness       interval,
    duration       interval,
    runner         prescient.label,
    requested_within   integer,
    request        prescient.request,
    ack            text
)
partition by range (finished_at);

comment on column prescient.future_job_history.slot is 'the slot the row was in when it ended';
comment on column prescient.future_job_history.request is
    'the request that the row had when it ended. If the row was cancelled, so was the request. If the key had ended as done within unless_ended_within, it was dropped. Else another row came of it';
comment on column prescient.future_job_history.lateness is 'start of the check that ended the row minus its slot; null: no check did';
comment on column prescient.future_job_history.ack is
    'who has acknowledged that the row failed, when and why: an entry of function journal_entry with because; null: nobody';
comment on column prescient.future_job_history.duration is 'run time of the check that ended the row; null: no check did';

-- jobs history, stats and prune: by time.
create index future_job_history_finished_at on prescient.future_job_history using brin (finished_at) with (autosummarize = on);

-- jobs history, jobs retry, why: by entity. ended_recently: the last end of a key, of an entity with a million of them.
create index future_job_history_entity on prescient.future_job_history (entity_name, entity_key, item_key, finished_at);

-- ledger_jobs, board_retry, retry_failed: rows that failed lately, which are few. ledger_jobs also reads those that ended
-- by max_checks, and those that failed before they were cancelled. With an index of failed rows alone it reads each row
-- of the day, which takes 20 times as long for 2,000,000. The first comparison spares rows that are done the others.
create index future_job_history_failed on prescient.future_job_history (finished_at)
where outcome <> 'done' and (outcome in ('failed', 'max_checks') or error_count > 0);

-- Holds rows of months without a partition, so that ending a row never fails for lack of one.
create table prescient.future_job_history_rest partition of prescient.future_job_history default;

-- History has no key, because a key would cost each write. Without a replica identity, a publication for all tables
-- would forbid its updates and deletes: jobs retry, jobs prune, and new months. Each partition has its own; see
-- make_history_month.
alter table prescient.future_job_history replica identity full;
alter table prescient.future_job_history_rest replica identity full;

-- The ledger of slots.
create table prescient.slot_run (
    slot        timestamptz not null,
    state       text        not null,
    kind        text        not null,
    planned     bigint      not null,
    checked     bigint      not null default 0,
    finished    bigint      not null default 0,
    rescheduled bigint      not null default 0,
    failed      bigint      not null default 0,
    take_overs  integer     not null default 0,
    horizon     xid8        not null default '0',
    settled     boolean     not null default false,
    closed_by   bigint,
    names       text[]      not null default '{}',
    waited_for  text,
    opened_at   timestamptz not null default clock_timestamp(),
    run_at      timestamptz,
    worked      interval    not null default '0',
    resumed_at  timestamptz,
    finished_at timestamptz,
    runners     integer     not null default 0,
    workers     integer     not null default 0,
    constraint slot_run_pkey primary key (slot),
    constraint slot_run_state check (state in ('open', 'done')),
    constraint slot_run_kind check (kind in ('run', 'catch_up', 'by_hand')),
    constraint slot_run_finished check ((state = 'done') = (finished_at is not null))
);

comment on table prescient.slot_run is 'one row for every opened slot, also an empty one; a gap is a missed slot';
comment on column prescient.slot_run.kind is 'what opened the slot: its run, catch-up, or an operator who had a check run (jobs run), and no run since';
comment on column prescient.slot_run.planned is 'the rows at the opening of the slot; an estimate if there were many';
comment on column prescient.slot_run.checked is 'rows whose outcome a run recorded: finished + rescheduled + failed';
comment on column prescient.slot_run.failed is 'checks that ended in an error, before a retry or for good';
comment on column prescient.slot_run.horizon is 'a transaction that brings rows into the slot has a lower number than this';
comment on column prescient.slot_run.closed_by is 'the claim whose last record closed the slot; null: it was closed without one';
comment on column prescient.slot_run.names is 'the names of its first hundred runners, and how many came after them; journals hold positions in this list';
comment on column prescient.slot_run.waited_for is 'the last session whose lock of rows a runner named in its log; null: none';
comment on column prescient.slot_run.run_at is 'when its run, or catch-up, came to a slot of the kind by_hand; null: it never was one, or still is';
comment on column prescient.slot_run.worked is 'how long runners worked on it before resumed_at, up to the last outcome';
comment on column prescient.slot_run.resumed_at is 'when a runner last found it open and without a live runner; null: it was never left';
comment on column prescient.slot_run.runners is 'the largest number of concurrent runners; 0: the slot had nothing to do, or is from before this was counted';
comment on column prescient.slot_run.workers is 'the largest number of concurrent checks of all runners';
comment on column prescient.slot_run.settled is 'all transactions below the horizon had ended when the slot was scanned: no row can come behind a cursor';

-- status and catch-up: slots that were left open, which are few however old the ledger is.
create index slot_run_open on prescient.slot_run (slot) where state = 'open';

-- The jobs of a slot. A row stays undrained if the slot is closed without the rows of a paused job.
create table prescient.slot_job (
    slot        timestamptz not null,
    job         bigint      not null,
    planned     bigint      not null,
    cursor      bigint      not null default 0,
    drained     boolean     not null default false,
    missed      boolean     not null default false,
    finished    bigint      not null default 0,
    rescheduled bigint      not null default 0,
    failed      bigint      not null default 0,
    spent       interval    not null default '0',
    late        bigint      not null default 0,
    error       prescient.error_text,
    first_at    timestamptz,
    last_at     timestamptz,
    constraint slot_job_pkey primary key (slot, job),
    constraint slot_job_slot_run_fkey foreign key (slot) references prescient.slot_run (slot) on delete cascade
)
-- Updated by every claim: room for HOT updates.
with (fillfactor = 50);

comment on table prescient.slot_job is 'the rows of one job in one slot';
comment on column prescient.slot_job.cursor is 'rows with ids up to this one have been claimed';
comment on column prescient.slot_job.drained is 'no row comes after the cursor';
comment on column prescient.slot_job.missed is 'the slot was closed, or left, without rows of the job, which was paused: for catch-up they count as missed';
comment on column prescient.slot_job.spent is 'run time of its checks in this slot';
comment on column prescient.slot_job.late is 'checks that began later than the SLA of the job';
comment on column prescient.slot_job.error is 'the error of one of the failed checks';
comment on column prescient.slot_job.first_at is 'when the first of its rows were recorded; last_at: the last';

create table prescient.slot_claim (
    token           bigint      not null,
    slot            timestamptz not null,
    kind            text        not null,
    jobs            bigint[]   not null,
    first_id        bigint      not null,
    last_id         bigint      not null,
    runner          prescient.label not null,
    allocated_until timestamptz not null,
    -- The fence locks this key, which a take-over changes and a heartbeat does not: records and heartbeats never wait
    -- for each other, except for the record that ends the claim, and a take-over waits for a record.
    constraint slot_claim_pkey primary key (token),
    constraint slot_claim_kind check (kind in ('run', 'catch_up'))
)
-- Updated by every heartbeat: room for HOT updates.
with (fillfactor = 50);

comment on table prescient.slot_claim is 'a runner''s time-limited right to the rows of jobs from first_id to last_id; gone when the last of them is recorded';
comment on column prescient.slot_claim.token is 'made by the runner; fences one that lost its lease';
comment on column prescient.slot_claim.jobs is 'empty: the runner is at the slot, and may claim more';

-- open_slot, close_slot, take_over, and what lists claims.
create index slot_claim_slot on prescient.slot_claim (slot);

-- Counts of recorded rows, a few rows a transaction. Adding them up in slot_job would make records and claims wait for
-- each other, so the close of the slot adds them up. job 0 marks a transaction, by which a runner without a reply finds
-- out whether it committed.
create table prescient.slot_progress (
    slot        timestamptz not null,
    token       bigint      not null,
    part        bigint      not null,
    job         bigint      not null,
    bucket      smallint    not null default -1,
    finished    bigint      not null default 0,
    rescheduled bigint      not null default 0,
    failed      bigint      not null default 0,
    requests    bigint      not null default 0,
    spent       interval    not null default '0',
    late        bigint      not null default 0,
    error       prescient.error_text,
    take_overs  integer     not null default 0,
    recorded_at timestamptz not null default clock_timestamp(),
    constraint slot_progress_pkey primary key (slot, token, part, job, bucket)
);

comment on column prescient.slot_progress.requests is 'moved rows that had a request, see honour_moved';
comment on column prescient.slot_progress.bucket is 'the bucket of their lateness, see lateness_bucket; -1: they were not checked';

-- How late the checks of a job began, for its percentiles and histograms.
create table prescient.slot_lateness (
    slot   timestamptz not null,
    job    bigint      not null,
    bucket smallint    not null,
    checks bigint      not null,
    constraint slot_lateness_pkey primary key (slot, job, bucket),
    constraint slot_lateness_slot_run_fkey foreign key (slot) references prescient.slot_run (slot) on delete cascade
);

-- The argument of begin_check: the row, whether to wait for it, and the settings of its transaction. Times are in
-- milliseconds. actor names the check to the rows that it enqueues.
create type prescient.row_check as (
    slot         timestamptz,
    job          bigint,
    id           bigint,
    patient      boolean,
    session      text,
    lock_timeout text,
    idle_timeout text,
    actor        text
);

-- The argument of record_row: the outcome of a row. A null outcome moves it. Times are in microseconds. late: later than
-- the SLA of the job.
--
-- transaction is the number of the check's own transaction; null: it had none. If there is one, record_row also does what
-- same_check and fence do, and sets what begin_check sets. With unlocks it releases advisory locks that the check left.
create type prescient.row_outcome as (
    slot          timestamptz,
    token         bigint,
    part          bigint,
    job           bigint,
    job_exec      text,
    id            bigint,
    outcome       text,
    move          text,
    next_check_at timestamptz,
    error         text,
    payload       jsonb,
    lateness      bigint,
    duration      bigint,
    late          boolean,
    runner        text,
    entry         text,
    clock         timestamptz,
    transaction   text,
    session       text,
    lock_timeout  text,
    idle_timeout  text,
    unlocks       boolean
);

-- Recurring schedules. The next instant is not here: each active schedule is one row of future_job (job_exec and
-- entity_name 'schedule', entity_key the id), whose payload {"at": unix} names the next instant.
create table prescient.schedule (
    id         text collate "C" not null,
    crontab    prescient.label not null,
    timezone   prescient.label not null default '',
    payload    prescient.payload,
    deadline   interval,
    spread     interval    not null default '0',
    misfire    text        not null default 'all',
    anchor     timestamptz not null,
    paused     boolean     not null default false,
    version    integer     not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    starts_at  timestamptz,
    ends_at    timestamptz,
    max_runs   integer,
    exclude    text[],
    deadline_from text,
    sql        text,
    role       text,
    timeout    interval,
    job_exec   prescient.entity_name,
    notify     text,
    text       text,
    paused_at  timestamptz,
    paused_by  prescient.label,

    -- All statements read schedules by id, or in the byte order of their ids, so that a prefix is a range.
    constraint schedule_pkey primary key (id),

    -- Also keeps out control characters and the noncharacters up to U+FFFF, which no subject of an event may have.
    constraint schedule_id check (
        octet_length(id) between 1 and 200 and id !~ '^\s|\s$|[\u0001-\u001f\u007f-\u009f\ufdd0-\ufdef\ufffe\uffff]'
    ),
    constraint schedule_misfire check (misfire in ('all', 'latest', 'skip')),
    constraint schedule_deadline check (deadline > interval '0' and isfinite(deadline)),
    constraint schedule_spread check (spread between interval '0' and interval '24 hours'),
    -- Also keeps out the infinities, which the driver cannot scan.
    constraint schedule_anchor check (
        anchor between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
    ),
    constraint schedule_deadline_from check (deadline_from in ('instant', 'slot')),
    constraint schedule_starts_at check (
        starts_at between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
    ),
    constraint schedule_ends_at check (
        ends_at between timestamptz '1970-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
    ),
    constraint schedule_max_runs check (max_runs > 0),
    -- The driver scans one list without nulls.
    constraint schedule_exclude check (
        octet_length(array_to_string(exclude, '')) <= 200000
        and case when array_ndims(exclude) = 1 and array_lower(exclude, 1) = 1 then array_position(exclude, null) is null
            else exclude = '{}' end
    ),
    constraint schedule_sql check (octet_length(sql) <= 100000),
    constraint schedule_act check (num_nonnulls(sql, job_exec, notify) <= 1),
    constraint schedule_notify check (notify ~ '^[a-z0-9_-]{1,63}$'),
    constraint schedule_text check (text is null or notify is not null and octet_length(text) <= 10000),
    constraint schedule_role check (role is null or sql is not null and octet_length(role) <= 63),
    constraint schedule_timeout check (timeout is null or sql is not null and timeout between interval '1 second' and interval '1 hour')
);

comment on column prescient.schedule.paused_at is 'since when it is paused, and paused_by: by whom; null: it is not paused';
comment on column prescient.schedule.timezone is 'a name of the IANA database; empty: UTC, or the one in the crontab';
comment on column prescient.schedule.deadline is
    'an event is dropped if it would be published later than that after its slot, or its instant; null: no event is';
comment on column prescient.schedule.deadline_from is 'what the deadline counts from: instant or slot; null: the instant where slots are a minute wide or less';
comment on column prescient.schedule.starts_at is 'the schedule has no earlier instant; null: no bound';
comment on column prescient.schedule.ends_at is 'the schedule has no instant at or after this; null: no bound';
comment on column prescient.schedule.max_runs is 'the schedule ends when it has published that many events; null: never';
comment on column prescient.schedule.exclude is 'excluded days, days of the week and crontabs';
comment on column prescient.schedule.sql is 'the statement that runs at each instant, instead of an event; null: none';
comment on column prescient.schedule.role is 'the role that runs the statement; null: the login of the run';
comment on column prescient.schedule.timeout is 'how long the statement may run; null: 5 minutes';
comment on column prescient.schedule.notify is 'the receiver that gets a message at each instant, instead of an event; null: none';
comment on column prescient.schedule.text is 'the template of the message; null: a default text';
comment on column prescient.schedule.job_exec is 'the job of which a check is enqueued at each instant, instead of an event; null: none';
comment on column prescient.schedule.spread is 'a fixed part of this delays every instant; a hash of the id gives the part';
comment on column prescient.schedule.misfire is 'which instants of missed slots a run publishes';
comment on column prescient.schedule.anchor is 'the first instant of @every';

-- schedule_forgotten: the schedules that have been paused for longest.
create index schedule_paused on prescient.schedule (paused_at) where paused;
-- receiver_unknown: who notifies a receiver.
create index schedule_receiver on prescient.schedule (notify collate "C") where notify is not null;

-- Dropped events: past the deadline, by the misfire policy, or above its limit. Runs and changes of the schedule write
-- here. Both hold its row of future_job, so neither waits for the other here.
create table prescient.schedule_state (
    id         text collate "C" not null,
    dropped    bigint not null,
    runs       bigint not null default 0,
    last_at    timestamptz,
    backfills  bigint not null default 0,
    dropped_at timestamptz,
    constraint schedule_state_pkey primary key (id)
)
with (fillfactor = 80);

comment on column prescient.schedule_state.runs is 'published events, of schedules with max_runs that do not wait';
comment on column prescient.schedule_state.backfills is 'the transaction in which the last backfill began; only that backfill may publish';
comment on column prescient.schedule_state.last_at is 'the last published instant, of schedules that do not wait';
comment on column prescient.schedule_state.dropped_at is 'when an event was last dropped; null: never';

-- board_misfires: the schedules that dropped events last.
create index schedule_state_dropped_at on prescient.schedule_state (dropped_at) where dropped_at is not null;

-- Events, written in the transaction of their cause, and how far consumers have read them.

-- Transactions do not commit in the order in which they wrote, so a reader that remembers the last position it has
-- seen would miss those that commit later. Readers order events by mark, and then by position. mark has two properties:
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
    id           text collate "C"        not null,
    source       text collate "C"        not null,
    type         text collate "C"        not null,
    subject      text collate "C",
    time         timestamptz,
    published_at timestamptz,
    data         json,
    written_at   timestamptz not null default clock_timestamp(),

    -- event_read, event_newest, event_prune: in the order of readers.
    constraint event_outbox_pkey primary key (mark, position)
)
-- Vacuum also runs for inserts, and soon after a prune.
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

create table prescient.event_consumer (
    name            text collate "C" not null,
    mark            xid8        not null,
    position        bigint      not null,
    acked_at        timestamptz not null default clock_timestamp(),
    address         text,
    types           text[] collate "C",
    token           bigint,
    allocated_until timestamptz,
    failing_since   timestamptz,
    error           prescient.error_text,
    constraint event_consumer_pkey primary key (name),
    constraint event_consumer_name check (octet_length(name) between 1 and 200)
)
-- Updated for every batch that a forwarder sends: room for HOT updates.
with (fillfactor = 20);

comment on table prescient.event_consumer is 'the last event that each consumer has acknowledged, with all events before it';
comment on column prescient.event_consumer.address is 'where a forwarder sends the events, without secrets; null: the consumer reads them itself';
comment on column prescient.event_consumer.types is 'patterns for like, of the types that a forwarder sends; null: all types';
comment on column prescient.event_consumer.token is 'the forwarder that may send for the consumer until allocated_until';
comment on column prescient.event_consumer.failing_since is 'since when each try to send failed; null: the last try did not';

-- Events that a destination has refused, and later ones of their subjects, which wait behind them.
create table prescient.event_dead (
    number       bigint      not null generated always as identity,
    consumer     text collate "C"        not null,
    id           text collate "C"        not null,
    source       text collate "C"        not null,
    type         text collate "C"        not null,
    subject      text collate "C",
    time         timestamptz,
    published_at timestamptz,
    data         json,
    refusals     integer     not null default 0,
    error        prescient.error_text,
    refused_at   timestamptz not null default clock_timestamp(),
    try_at       timestamptz,
    dead_at      timestamptz,
    send_at      timestamptz,
    recipient    text collate "C",

    -- In the order of their subject: event_dead_list, event_dead_due.
    constraint event_dead_pkey primary key (number),
    -- event_dead_hold
    constraint event_dead_key unique (consumer, source, id)
);

comment on table prescient.event_dead is 'events that a destination refuses: those that a forwarder tries again, and the dead letters; and messages that wait for their time';
comment on column prescient.event_dead.refusals is 'how often the destination refused it; 0: it is held back, behind an earlier one of its subject';
comment on column prescient.event_dead.refused_at is 'when it was first refused, or held back';
comment on column prescient.event_dead.try_at is 'when the forwarder tries it again; null: it waits behind another one, or is a dead letter';
comment on column prescient.event_dead.dead_at is 'since when it is a dead letter, which no forwarder tries again; null: a forwarder does';
comment on column prescient.event_dead.send_at is 'when the message is sent for the first time, with others that wait for that; null: it was tried at once';
comment on column prescient.event_dead.recipient is 'to whom a message with send_at goes; null: to the recipient of the receiver';

-- event_dead_subjects: whether the next event of a subject has to wait. event_dead_due, event_dead_head.
create index event_dead_subject on prescient.event_dead (consumer, subject, number);
-- event_dead_due, event_waiting
create index event_dead_try on prescient.event_dead (consumer, try_at) where try_at is not null;

-- The messages that receivers have got: an event of the outbox does not say so.
create table prescient.event_sent (
    consumer text collate "C" not null,
    source   text collate "C" not null,
    id       text collate "C" not null,
    subject  text collate "C",
    sent_at  timestamptz not null default clock_timestamp(),

    constraint event_sent_pkey primary key (consumer, source, id)
);

comment on table prescient.event_sent is 'when receivers have got messages';

-- event_messages: those about a row.
create index event_sent_subject on prescient.event_sent (subject, sent_at);
-- event_sent_prune
create index event_sent_time on prescient.event_sent using brin (sent_at);

-- The findings of status that were told to a person, and those that are silenced.
create table prescient.alert (
    finding        text collate "C" not null,
    text           text        not null,
    since          timestamptz,
    told_at        timestamptz,
    silenced_until timestamptz,
    silenced_by    text collate "C",
    because        text,
    stays          boolean     not null default false,
    constraint alert_pkey primary key (finding)
);

comment on table prescient.alert is 'findings that were told to alerts.receiver, and those that are silenced';
comment on column prescient.alert.finding is 'the condition, a slash, and what it is about';
comment on column prescient.alert.since is 'since when the finding is there; null: it is silenced, and not there';
comment on column prescient.alert.told_at is 'when a message last told it; null: none did';
comment on column prescient.alert.stays is 'whether only rows that gave up before the last day keep it, or no message tells of newer ones yet';

-- When a process last looked for findings to tell.
create table prescient.alert_look (
    singleton boolean     not null default true,
    looked_at timestamptz not null default clock_timestamp(),
    told      bigint      not null default 0,
    constraint alert_look_pkey primary key (singleton),
    constraint alert_look_singleton check (singleton)
);

comment on table prescient.alert_look is 'when a process last looked for findings to tell, so that many processes tell once';
comment on column prescient.alert_look.told is 'how many looks have told what they found';

-- Limits over all runners: concurrent checks (permits) and checks a second (rates) of a job, in all or for each key.

-- The permits of a run. Like a claim they expire unless they are renewed.
create table prescient.job_permit (
    job             bigint      not null,
    key             text collate "C"        not null,
    token           bigint      not null,
    permits         integer     not null,
    allocated_until timestamptz not null,
    constraint job_permit_pkey primary key (job, key, token),
    constraint job_permit_permits check (permits > 0)
)
-- Updated by every heartbeat: room for HOT updates.
with (fillfactor = 50);

comment on table prescient.job_permit is 'how many concurrent checks of a job a run may do, if that is limited over all runs';
comment on column prescient.job_permit.key is 'the key of the limit; empty: the limit of the job';
comment on column prescient.job_permit.token is 'the token of the run in slot_claim';

create table prescient.job_rate (
    job     bigint      not null,
    key     text collate "C"        not null,
    free_at timestamptz not null,
    constraint job_rate_pkey primary key (job, key)
)
-- Updated some twenty times a second.
with (fillfactor = 20);

comment on table prescient.job_rate is 'when the next check of a job may begin, if checks a second are limited over all runs';

-- How far the outbox was pruned, so that a reader that fell behind finds out.
create table prescient.event_watermark (
    singleton   boolean     not null default true,
    mark       xid8        not null,
    position   bigint      not null,
    written_at timestamptz not null,
    removed_at timestamptz not null default clock_timestamp(),
    constraint event_watermark_pkey primary key (singleton),
    constraint event_watermark_singleton check (singleton)
);

comment on table prescient.event_watermark is 'the last event, in the order of readers, that was removed from event_outbox; no row: no event was';

comment on table prescient.event_outbox is
    'marks are transaction numbers, which start again on another server: renumber_events gives them new ones after a restore from a dump';

-- The actions of operators.
create table prescient.action (
    id        bigint      not null generated always as identity,
    at        timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    by_role   text        not null default coalesce(nullif(current_setting('role'), 'none'), session_user),
    actor     prescient.label not null,
    what      prescient.label not null,
    target    text        not null,
    plan      text        not null,
    row_count bigint      not null,
    slots     bigint      not null,
    schedules bigint      not null,
    events    bigint      not null,
    outcome   text        not null default 'running',
    result    text        not null default '',
    seen_at   timestamptz not null default clock_timestamp(),

    -- board_actions: the newest first.
    constraint action_pkey primary key (id),
    constraint action_outcome check (outcome in ('running', 'done', 'failed', 'stopped')),
    constraint action_finished check ((outcome = 'running') = (finished_at is null))
);

comment on table prescient.action is 'actions of operators through prescient serve, with the preview that they confirmed';
comment on column prescient.action.actor is 'the name of the token, and the address of the client';
comment on column prescient.action.plan is 'the preview that the operator confirmed; row_count, slots, schedules and events: its numbers';
comment on column prescient.action.outcome is 'running: it is running, or its server died';
comment on column prescient.action.seen_at is 'when the server of a running action last said that it goes on; it says so every ten seconds';

-- Rows on their way to another store; ../functions/give_rows.sql describes the way.
create table prescient.transfer_out (
    batch       bigint      not null,
    target      text collate "C"        not null,
    source_name text collate "C"        not null,
    target_name text collate "C"        not null,
    given       integer[]   not null,
    given_at    timestamptz not null default clock_timestamp(),
    constraint transfer_out_pkey primary key (batch)
);

comment on table prescient.transfer_out is 'batches of rows that were released to other stores, where they do not wait yet';
comment on column prescient.transfer_out.given is 'the rows of the batch, by their numbers in transfer_in of the target';
comment on column prescient.transfer_out.source_name is 'the mover''s name for this store; target_name: its name for the other one';

create table prescient.transfer_in (
    source      text collate "C"    not null,
    batch       bigint  not null,
    nth         integer not null,
    job_exec    text collate "C"    not null,
    entity_name text collate "C"    not null,
    entity_key  text collate "C"    not null,
    item_key    text collate "C",
    data        json,
    schedule    json,
    dropped     json,
    outcome     text,
    told        text,
    constraint transfer_in_pkey primary key (source, batch, nth)
);

comment on table prescient.transfer_in is 'copies of rows of other stores, which wait here once they are released';
comment on column prescient.transfer_in.data is 'the row of future_job, and null_payload where its payload is the null of JSON; null: a schedule that does not wait';
comment on column prescient.transfer_in.schedule is 'the row of schedule that it stands for, and of schedule_state; null: none';
comment on column prescient.transfer_in.outcome is 'how the row ends once it is released, because a caller has cancelled it; told: the entry for its journal, of slot 0';

-- end_check, end_checks: a copy that is cancelled.
create index transfer_in_key on prescient.transfer_in (entity_name, entity_key);

-- Rules: what to do for the rows of a table for which something has not happened in time.
create table prescient.rule (
    name       text collate "C" not null,
    relation   text        not null,
    definition json        not null,
    version    integer     not null default 1,
    state      text        not null default 'applying',
    position   text,
    retimed    text[]      not null default '{}',
    applied_at timestamptz,
    applied_by prescient.label,
    recovers_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),

    -- All statements read rules by name, or in the byte order of their names.
    constraint rule_pkey primary key (name),

    constraint rule_name check (octet_length(name) between 1 and 200),
    constraint rule_version check (version > 0),
    constraint rule_state check (state in ('applying', 'active', 'removing'))
);

comment on table prescient.rule is 'the rules that were applied; the name is also the job_exec of their checks';
comment on column prescient.rule.relation is 'the table that the rule is about, qualified and quoted';
comment on column prescient.rule.definition is 'the rule as applied, with its calendars, and what it means on its table';
comment on column prescient.rule.version is 'is raised by each apply that changes the definition';
comment on column prescient.rule.state is
    'applying: an apply walks over the rows of the table, or has died; active: all rows wait as the rule says; removing: a remove is at work, or has died';
comment on column prescient.rule.recovers_at is 'since when the rule has recovered: steps that fired before are not followed by its event; null: it has none';
comment on column prescient.rule.position is 'the last key to which the walk over the table has come; null: it has not begun, or is done';
comment on column prescient.rule.retimed is 'the steps that come at other instants since the last walk that is done';

-- When columns of a row have changed, for rules whose since is changed(...), and when the row was paused, for rules with
-- pause. A trigger writes it. It outlives the check of the row, whose payload goes when the row is done.
create table prescient.rule_changed (
    job        bigint               not null,
    entity_key prescient.entity_key not null,
    changed_at timestamptz,
    pauses     timestamptz[]        not null default '{}',

    -- The check of a rule, and the walk of an apply: by key.
    constraint rule_changed_pkey primary key (job, entity_key),
    constraint rule_changed_pauses check (array_position(pauses, null) is null)
);

comment on table prescient.rule_changed is 'when the columns of rows changed that since: changed(...) of a rule names, and when rows were paused';
comment on column prescient.rule_changed.job is 'the number of the job of the rule, see table job';
comment on column prescient.rule_changed.changed_at is 'when the transaction began that wrote the last change; null: none is known';
comment on column prescient.rule_changed.pauses is 'the begin and the end of each pause, in turn; the last one may have no end yet';

-- The steps that have fired. The check that inserts an entry fires the step, so each step fires once for a rule, a key
-- and an instant from which delays count.
create table prescient.rule_fired (
    job        bigint               not null,
    entity_key prescient.entity_key not null,
    since      timestamptz          not null,
    step       text collate "C"                 not null,
    number     int                  not null default 1,
    times      int                  not null default 1,
    fired_at   timestamptz          not null default clock_timestamp(),
    first_at   timestamptz,
    due_at     timestamptz,
    start      text,
    key_then   prescient.entity_key,
    left_before timestamptz,

    -- The check of a rule, and the walk of an apply: by key.
    constraint rule_fired_pkey primary key (job, entity_key, since, step),
    constraint rule_fired_number check (times between 1 and number),
    constraint rule_fired_step check (octet_length(step) between 1 and 200)
);

-- events tail: rule_fired_last, by time. It costs a write next to nothing.
create index rule_fired_fired_at on prescient.rule_fired using brin (fired_at);

comment on table prescient.rule_fired is 'the steps of rules that have fired, one row for each start of the clock of a key';
comment on column prescient.rule_fired.number is 'of the last repetition that has fired, from 1';
comment on column prescient.rule_fired.times is 'how often the step has fired';
comment on column prescient.rule_fired.fired_at is 'when the last repetition fired';
comment on column prescient.rule_fired.first_at is 'when the first repetition fired; null: at fired_at';
comment on column prescient.rule_fired.due_at is 'when the last repetition was due; null: not known, or the step is recovered or met';
comment on column prescient.rule_fired.start is 'the value behind since, if it has no time zone: since may be another instant after an update of zone data; null: since';
comment on column prescient.rule_fired.left_before is 'when the step fired, steps before this instant were left out, and they stay so; null: none was';
comment on column prescient.rule_fired.key_then is 'the key of the row when the step fired, which the event has; null: the key has not changed since';
comment on column prescient.rule_fired.job is 'the number of the job of the rule, see table job';
