-- Begins the transaction of a check of one row.
select prescient.begin_check($1, $2, $3, $4, $5, $6, $7)
