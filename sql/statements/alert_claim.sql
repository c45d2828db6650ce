-- Claims the look at findings for a process (token $1), unless another one has looked less than $2 seconds ago.
-- Called by slots/alert.Config.claim.
insert into prescient.alert_look as l (token)
values ($1)
on conflict (singleton) do update
set token = excluded.token, looked_at = excluded.looked_at
where l.looked_at <= excluded.looked_at - $2::double precision * interval '1 second'
returning true
