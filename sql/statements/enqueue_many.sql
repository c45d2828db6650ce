-- Enqueues many checks. See the function enqueue_many. $10: the clock of a replay, or null.
-- In the texts of the arrays '' stands for no payload or group, 0 for no window or condition, and $12
-- for the item key of an anonymous row. A role or a database may set array_nulls to off, and then the
-- server reads NULL in the text of an array as a text.
-- Called by jobs.Client.writeChunk.
-- Called by jobs.Definition.EnqueueStatement.
select inserted, kept, replaced, pushed_back, recorded, recent
from prescient.enqueue_many(
    $1, $2, $3, array_replace($6::text[], $12, null), $4, array_replace($7::text[], '', null), $8,
    max_wait => $9::double precision * interval '1 microsecond', withins => array_replace($11::interval[], interval '0', null),
    unless_ended_withins => array_replace($13::interval[], interval '0', null),
    -- The arguments are evaluated before the call, which reads the setting.
    payloads => case
        when $10::timestamptz is null
            or set_config('prescient_caller.clock', to_char($10::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), true) is not null
            then array_replace($5::text[], '', null)
    end
)
