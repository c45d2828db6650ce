-- Moves a waiting check to another slot. See the function reschedule. $6: the clock of a replay, or null.
-- Called by jobs.Client.Reschedule.
select prescient.reschedule(
    $1, $2, $3, item_key => $5,
    -- The arguments are evaluated before the call, which reads the setting.
    check_at => case
        when $6::timestamptz is null
            or set_config('prescient_caller.clock', to_char($6::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), true) is not null
            then $4::timestamptz
    end
)
