-- Moves a waiting check to a later slot. See the function push_back. $7: the clock of a replay, or null.
-- Called by jobs.Client.PushBack.
select prescient.push_back(
    $1, $2, $3, item_key => $6, max_wait => $5 * interval '1 microsecond',
    -- The arguments are evaluated before the call, which reads the setting.
    check_at => case
        when $7::timestamptz is null
            or set_config('prescient_caller.clock', to_char($7::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), true) is not null
            then $4::timestamptz
    end
)
