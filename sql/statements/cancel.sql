-- Cancels one waiting check by its key. See the function cancel.
-- Called by jobs.Client.Cancel.
select prescient.cancel($1, $2, $3, $4)
