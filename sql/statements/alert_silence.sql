-- Silences a finding ($1) for $2 seconds, because of $3. 0 ends that.
-- Called by internal/alert.Silence.
insert into prescient.alert (finding, text, silenced_until, silenced_by, because)
values (
    $1, '', clock_timestamp() + $2::double precision * interval '1 second',
    coalesce(left(nullif(current_setting('prescient_caller.actor', true), ''), 500), nullif(current_setting('role'), 'none'), session_user), $3
)
on conflict (finding) do update
set silenced_until = excluded.silenced_until, silenced_by = excluded.silenced_by, because = excluded.because
