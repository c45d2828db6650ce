-- Fails where the check has ended the transaction of this number.
select prescient.same_check($1)
