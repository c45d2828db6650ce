-- The first slot that has not begun.
select prescient.slot_target(timestamptz '1970-01-01 00:00:00+00', $1)
