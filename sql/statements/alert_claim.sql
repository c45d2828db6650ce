-- Claims the look at findings, unless a process has begun one less than $1 seconds ago, and returns how many looks have
-- told. A look in the future was one by a clock that has been set back since.
-- Called by internal/alert.Config.claim.
insert into prescient.alert_look as l (singleton)
values (true)
on conflict (singleton) do update
set looked_at = excluded.looked_at
-- In UTC, as Citus takes no interval of a timestamptz here, which could depend on the time zone of the session.
where l.looked_at at time zone 'UTC' <= excluded.looked_at at time zone 'UTC' - $1::double precision * interval '1 second'
    or l.looked_at > excluded.looked_at
returning told
