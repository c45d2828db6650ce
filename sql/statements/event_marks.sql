-- Returns the transaction numbers of the consumers by name, and of the last event without a name. A
-- number beyond those of event_bounds, when these are read afterwards, comes from another server.
-- Called by slots/ledger.Ledger.ConsumersAhead.
select name, mark
from prescient.event_consumer
union all (
    select '', mark
    from prescient.event_outbox
    order by mark desc, position desc
    limit 1
)
order by name
