insert into prescient.slot_tally (slot, shard, finished, rescheduled, failed)
values ($1, $2, $3, $4, $5)
