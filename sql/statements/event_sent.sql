-- Records that consumer $1 has got events, by their sources ($2), ids ($3) and subjects ($4; empty: none).
-- Called by jobs/event/forward.sender.keep.
insert into prescient.event_sent (consumer, source, id, subject)
select $1, source, id, nullif(subject, '')
from unnest($2::text[], $3::text[], $4::text[]) as g (source, id, subject)
on conflict on constraint event_sent_pkey do nothing
