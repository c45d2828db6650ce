-- Forgets finished slots before $1, at most $2. See the function prune_ledger.
-- Called by slots/ledger.Ledger.Prune.
select prescient.prune_ledger($1, $2)
