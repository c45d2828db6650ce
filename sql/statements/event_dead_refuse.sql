-- Counts a refusal of each event. The first arrays are those of event_insert, $8 the errors. An event
-- with $9 refusals, or that was first refused $10 seconds ago, becomes a dead letter; null: no limit.
-- Returns the dead ones.
-- Called by jobs/event/deadletter.publisher.refuse.
with refused as (
    insert into prescient.event_dead as d (id, source, type, subject, time, generated_at, data, refusals, error, dead_at)
    select
        id, source, type, nullif(subject, ''), nullif(time, '')::timestamptz, nullif(generated_at, '')::timestamptz, nullif(data, '')::json,
        1, error, case when $9::integer <= 1 then clock_timestamp() end
    from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) with ordinality
        as g (id, source, type, subject, time, generated_at, data, error, nth)
    order by nth
    on conflict on constraint event_dead_key do update
    set refusals = d.refusals + 1,
        error = excluded.error,
        tried_at = excluded.tried_at,
        dead_at = coalesce(
            d.dead_at,
            case
                when d.refusals + 1 >= $9::integer or excluded.refused_at - d.refused_at >= $10::double precision * interval '1 second'
                    then excluded.refused_at
            end
        )
    returning d.source, d.id, d.dead_at
)
select source, id
from refused
where dead_at is not null
