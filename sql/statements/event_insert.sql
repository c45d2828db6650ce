-- Writes events in their order. They are given as arrays, in which '' is null. The source of an event without one is
-- this store.
-- Called by jobs/event/outbox.Outbox.PublishTx.
insert into prescient.event_outbox (id, source, type, subject, time, published_at, data)
select
    id, coalesce(nullif(source, ''), 'prescient:/' || (select s.store from prescient.store() as s)), type, nullif(subject, ''), nullif(time, '')::timestamptz, nullif(published_at, '')::timestamptz, nullif(data, '')::json
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) with ordinality
    as g (id, source, type, subject, time, published_at, data, nth)
order by nth
