-- Rows were left in a slot behind its cursors: whoever closes it has to look for them.
update prescient.slot_run
set settled = false
where slot = $1
returning slot
