-- Returns the position of the newest event that can be read. By itself: beside a table, Citus would call the function on a
-- worker, which has other transaction numbers than the marks of events.
-- Called by jobs/event/forward.Name.
select mark, position
from prescient.newest_events(1)
