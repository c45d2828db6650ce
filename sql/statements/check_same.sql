-- Fails where the check has ended the transaction of this number.
-- Called by slots.run.messageTx.
select prescient.same_check($1)
