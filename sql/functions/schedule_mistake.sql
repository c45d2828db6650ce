-- Returns the first argument of set_schedule that cannot be stored: its name, the value as given, the rule that it breaks,
-- and what to do. All are null if there is none. The constraints of table schedule hold the same rules for all writers.
-- Called by set_schedule.
create or replace function prescient.schedule_mistake(
    id        text,
    crontab   text,
    timezone  text,
    sql       text,
    role      text,
    timeout   interval,
    job_exec  text,
    notify    text,
    text      text,
    misfire   text,
    deadline  interval,
    spread    interval,
    starts_at timestamptz,
    ends_at   timestamptz,
    max_runs  integer,
    exclude   text[],
    payload   jsonb,
    out name  text,
    out given text,
    out rule  text,
    out hint  text
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    era constant tstzrange := tstzrange('1970-01-01 00:00:00+00', '9999-12-31 00:00:00+00', '[]');
    zone_of_caller constant text := current_setting('timezone');
    zone_is_known boolean := timezone = '';
    refusing text := prescient.refusing_login(role);
begin
    -- A run knows a zone by its exact name alone. The server takes utc or europe/berlin too, but then shows the exact name.
    -- It also takes rules such as UTC+3, and shows these in capitals. To look up a name among all names takes long, so that is
    -- done only for capitals with digits.
    begin
        if timezone <> '' then
            perform set_config('timezone', timezone, true);
            zone_is_known := current_setting('timezone') = timezone
                and timezone !~ '^(posix|right)/|^(localtime|posixrules)$'
                and (timezone ~ '[a-z]' or timezone !~ '[0-9]' or exists (select from pg_timezone_names n where n.name = timezone));
            perform set_config('timezone', zone_of_caller, true);
        end if;
    exception when data_exception then
        zone_is_known := false;
    end;
    select c.name, case when c.value is null then 'null' else quote_literal(left(c.value, 100)) end, c.rule, c.hint
    into name, given, rule, hint
    from (
        values
            (1, 'id', id,
                octet_length(id) between 1 and 200 and id not in ('.', '..')
                    and id !~ '^\s|\s$|[\u0001-\u001f\u007f-\u009f\ufdd0-\ufdef\ufffe\uffff]',
                'have 1 to 200 bytes of printable text, without a space at its ends, and not be . or ..',
                'Choose a name for the schedule, such as report-42.'),
            (2, 'crontab', crontab,
                octet_length(crontab) <= 2000 and crontab ~ '^\s*((CRON_)?TZ=\S+\s+)?(@\S.*|\S+(\s+\S+){4}\s*)$',
                'have five fields, or a name with @, in at most 2000 bytes', 'Write it such as 0 9 * * mon-fri, @hourly or @every 90m.'),
            (3, 'timezone', timezone, zone_is_known and octet_length(timezone) <= 2000, 'be a time zone that the server knows, by its exact name',
                'Write it such as Europe/Berlin. The view pg_timezone_names has the names. Leave it out for UTC.'),
            (4, 'sql', sql, coalesce(octet_length(sql) between 1 and 100000, true), 'have 1 to 100000 bytes',
                'Put a large statement into a function, and call that.'),
            (5, 'job_exec', job_exec, sql is null or job_exec is null, 'not stand beside sql', 'A schedule does one thing. Make two schedules.'),
            (6, 'notify', notify, notify is null or num_nonnulls(sql, job_exec) = 0, 'not stand beside sql or job_exec',
                'A schedule does one thing. Make two schedules.'),
            (7, 'payload', payload::text, payload is null or sql is null, 'not stand beside sql, which has no event',
                'Write the values into the statement.'),
            (8, 'payload', payload::text, coalesce(octet_length(payload::text) <= 1048576, true), 'have at most 1048576 bytes as text',
                'Keep the data in a table of the application, and give its key.'),
            (9, 'role', role, role is null or sql is not null, 'stand beside sql', 'Leave it out, or give the statement, too.'),
            (10, 'role', role, role is null or exists (select from pg_roles r where r.rolname = role), 'be a role that exists',
                'Create the role, and grant it to the login of the runs.'),
            (11, 'role', role, refusing is null, 'be a role that a login of the runs may take',
                'grant ' || quote_ident(role) || ' to ' || quote_ident(refusing) || ';'),
            (12, 'timeout', timeout::text, timeout is null or sql is not null, 'stand beside sql', 'Leave it out, or give the statement, too.'),
            (13, 'timeout', timeout::text, coalesce(timeout between interval '1 second' and interval '1 hour', true),
                'be from 1 second to 1 hour', 'Let the statement do less at a time, and run it more often.'),
            (14, 'job_exec', job_exec, coalesce(octet_length(job_exec) between 1 and 200, true), 'have 1 to 200 bytes',
                'Give the name of a job that the runs register.'),
            (15, 'notify', notify, coalesce(notify ~ '^[a-z0-9_-]{1,63}$', true), 'be the name of a receiver: a-z, 0-9, _ and -, at most 63',
                'The setting receivers has the names.'),
            (16, 'text', text, text is null or notify is not null, 'stand beside notify', 'Leave it out, or give a receiver, too.'),
            (17, 'text', text, coalesce(octet_length(text) <= 10000, true), 'have at most 10000 bytes', 'Shorten the message.'),
            (18, 'misfire', misfire, misfire in ('all', 'latest', 'skip') and misfire is not null, 'be all, latest or skip', 'Leave it out for all.'),
            (19, 'deadline', deadline::text, coalesce(deadline between interval '1 second' and interval '100 years', true),
                'be from 1 second to 100 years', 'Leave it out if no event is too late.'),
            (20, 'spread', spread::text, coalesce(spread between interval '0' and interval '24 hours', false), 'be from 0 to 24 hours',
                'Leave it out for no spread.'),
            (21, 'starts_at', starts_at::text, coalesce(starts_at <@ era, true), 'be from 1970 to 9999', 'Leave it out for no beginning.'),
            (22, 'ends_at', ends_at::text, coalesce(ends_at <@ era, true), 'be from 1970 to 9999', 'Leave it out for no end.'),
            (23, 'max_runs', max_runs::text, coalesce(max_runs > 0, true), 'be positive', 'Leave it out for no limit.'),
            (24, 'exclude', exclude::text, coalesce(octet_length(array_to_string(exclude, '')) <= 200000, true),
                'have at most 200000 bytes', 'Exclude weekdays or ranges of days instead of single instants.'),
            (25, 'exclude', exclude::text,
                case when array_ndims(exclude) = 1 and array_lower(exclude, 1) = 1 then array_position(exclude, null) is null
                    else coalesce(exclude = '{}', true) end,
                'be one list without nulls', 'Write it such as array[''sat,sun'', ''2036-12-25''].'),
            (26, 'exclude', exclude::text, coalesce(cardinality(exclude) <= 100, true), 'have at most 100 patterns',
                'Exclude weekdays or ranges of days instead of single instants.'),
            (27, 'exclude', exclude::text,
                not exists (select from unnest(exclude) as e (pattern) where octet_length(e.pattern) > 2000 or e.pattern ~ '\n'),
                'have patterns of one line, each of at most 2000 bytes', 'Write a pattern for each range of days or weekdays.'),
            (28, 'ends_at', ends_at::text, coalesce(starts_at < ends_at, true), 'be after starts_at', 'Leave it out for no end.')
    ) as c (place, name, value, fine, rule, hint)
    where c.fine is not true
    order by c.place
    limit 1;
end
$$;
revoke all on function prescient.schedule_mistake(text, text, text, text, text, interval, text, text, text, text, interval, interval, timestamptz, timestamptz, integer, text[], jsonb) from public;
