-- Called by slots.run.messageTx.
-- Called by slots.run.recordAll.
-- Called by slots.run.recordThere.
select prescient.fence($1, $2, $3, $4, $5)
