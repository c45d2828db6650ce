-- Fails where the check has ended the transaction of this number.
-- Called by slots/internal/record.Writer.AddTx.
select prescient.same_check($1)
