-- Claims the look at findings for a process (token $1), unless another one has looked less than $2 seconds ago. A look in
-- the future was one by a clock that has been set back since.
-- Called by internal/alert.Config.claim.
insert into prescient.alert_look as l (token)
values ($1)
on conflict (singleton) do update
set token = excluded.token, looked_at = excluded.looked_at
-- In UTC, as Citus takes no interval of a timestamptz here, which could depend on the time zone of the session.
where l.looked_at at time zone 'UTC' <= excluded.looked_at at time zone 'UTC' - $2::double precision * interval '1 second'
    or l.looked_at > excluded.looked_at
returning true
