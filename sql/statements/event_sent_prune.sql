-- Removes the records of messages that were sent before $1, at most $2 of them, and returns their number.
-- Called by jobs/event/outbox.Outbox.pruneSent.
with gone as (
    delete from prescient.event_sent
    where (consumer, source, id) in (
        select consumer, source, id
        from prescient.event_sent
        where sent_at < $1
        limit $2
    )
    returning 1
)
select count(*) from gone
