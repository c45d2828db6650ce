-- Gives positions of this server to the events and consumers of another one. See the function
-- renumber_events.
-- Called by jobs/event/outbox.Outbox.Renumber.
select events, consumers
from prescient.renumber_events()
