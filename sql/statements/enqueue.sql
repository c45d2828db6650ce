-- Enqueues one check. See the function enqueue. $10: the clock of a replay, or null.
-- Called by jobs.Client.write.
select id, slot, action
from prescient.enqueue(
    $1, $2, $3, item_key => $6, check_at => $4, group_key => $7, on_conflict => $8,
    max_wait => $9::double precision * interval '1 microsecond', within => $11::double precision * interval '1 second',
    unless_ended_within => $12::double precision * interval '1 second',
    -- The arguments are evaluated before the call, which reads the setting.
    payload => case
        when $10::timestamptz is null
            or set_config('prescient_caller.clock', to_char($10::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), true) is not null
            then $5::jsonb
    end
)
