-- Writes messages of consumer $8 that are sent at an instant ($9), together with others, to a recipient ($10; '': that of
-- the receiver). The first arrays are those of event_insert. A message that is there already stays as it is. One that was
-- sent is not written again: while an earlier event of the outbox is unsent, each process reads it again.
-- Called by jobs/event/forward.sender.settle.
with given as materialized (
    select *
    from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $9::timestamptz[], $10::text[]) with ordinality
        as g (id, source, type, subject, time, published_at, data, send_at, recipient, nth)
), sent as materialized ( -- Citus takes no subquery that depends on a row of unnest
    select s.source, s.id
    from given g
    join prescient.event_sent s on s.consumer = $8::text and s.source = g.source and s.id = g.id
)
insert into prescient.event_dead (consumer, id, source, type, subject, time, published_at, data, try_at, send_at, recipient)
select
    $8::text, id, source, type, nullif(subject, ''), nullif(time, '')::timestamptz, nullif(published_at, '')::timestamptz, nullif(data, '')::json,
    send_at, send_at, nullif(recipient, '')
from given g
where not exists (select true from sent s where s.source = g.source and s.id = g.id)
order by nth
on conflict on constraint event_dead_key do nothing
