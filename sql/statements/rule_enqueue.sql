-- Lets rows of a rule wait: of the job $1 and the entity_name $2, the keys $3 at the instants $4,
-- with the payloads $5 ('' stands for none); null: no row has one. $6: the clock of a replay, or null.
-- Called by internal/rulestore.walk.write.
select inserted + kept + recorded
from prescient.enqueue_many(
    array_fill($1::text, array[cardinality($3::text[])]), array_fill($2::text, array[cardinality($3::text[])]), $3::text[],
    array_fill(''::text, array[cardinality($3::text[])]), $4::timestamptz[],
    -- The arguments are evaluated before the call, which reads the setting.
    payloads => case
        when $6::timestamptz is null
            or set_config('prescient_caller.clock', to_char($6::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), true) is not null
            then array_replace($5::text[], '', null)
    end
)
