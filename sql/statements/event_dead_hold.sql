-- Writes events of consumer $8 that its destination refused ($9: errors; '' for one that waits behind an
-- earlier event of its subject) and says which are dead letters ($10). The first arrays are those of
-- event_insert. An event that is there already stays as it is.
-- Called by jobs/event/forward.sender.settle.
insert into prescient.event_dead (consumer, id, source, type, subject, time, published_at, data, refusals, error, try_at, dead_at)
select
    $8::text, id, source, type, nullif(subject, ''), nullif(time, '')::timestamptz, nullif(published_at, '')::timestamptz, nullif(data, '')::json,
    case when error = '' then 0 else 1 end, nullif(error, ''),
    case when error <> '' and not dead then clock_timestamp() + interval '1 second' end,
    case when dead then clock_timestamp() end
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $9::text[], $10::boolean[]) with ordinality
    as g (id, source, type, subject, time, published_at, data, error, dead, nth)
order by nth
on conflict on constraint event_dead_key do nothing
