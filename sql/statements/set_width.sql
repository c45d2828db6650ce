-- Changes the width of the slots. See the function set_width.
-- Called by slots/ledger.Ledger.SetWidth.
select prescient.set_width($1 * interval '1 second', $2)
