-- Writes events as dead letters that no destination has refused, because an earlier one of their
-- subject is one. The arrays are those of event_insert.
-- Called by jobs/event/deadletter.publisher.hold.
insert into prescient.event_dead (id, source, type, subject, time, generated_at, data, dead_at)
select
    id, source, type, nullif(subject, ''), nullif(time, '')::timestamptz, nullif(generated_at, '')::timestamptz, nullif(data, '')::json, clock_timestamp()
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) with ordinality
    as g (id, source, type, subject, time, generated_at, data, nth)
order by nth
on conflict on constraint event_dead_key do update set dead_at = coalesce(event_dead.dead_at, excluded.dead_at)
