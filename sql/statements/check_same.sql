-- Fails where the check has ended the transaction that was marked.
select prescient.same_check($1)
