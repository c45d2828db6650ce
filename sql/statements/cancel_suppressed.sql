-- Raises the error of a cancellation that a trigger suppresses.
-- Called by jobs/admin.Client.CancelMany.
select prescient.raise_suppressed('the cancellation of a row')
