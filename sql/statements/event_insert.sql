-- Writes events in their order. They are given as arrays, in which '' is null.
-- Called by jobs/event/outbox.Outbox.PublishTx.
insert into prescient.event_outbox (id, source, type, subject, time, generated_at, data)
select
    id, source, type, nullif(subject, ''), nullif(time, '')::timestamptz, nullif(generated_at, '')::timestamptz, nullif(data, '')::json
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) with ordinality
    as g (id, source, type, subject, time, generated_at, data, nth)
order by nth
