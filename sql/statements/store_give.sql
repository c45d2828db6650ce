-- Releases rows to another store. See the function give_rows.
-- Called by jobs/stores.mover.give.
select prescient.give_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
