-- A runner that found no free shard asks those that hold some for a share of what they have not begun to read.
update prescient.slot_run
set asked = asked + 1
where slot = $1 and state = 'open'
