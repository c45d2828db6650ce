-- Gives a new row of a periodic function the error of the call for its instant, which was part of the check of an
-- earlier instant. $1 to $3: the number of its job, the entity name and the entity key; $4: its payload, so that another
-- row that waits under the key is left alone; $5: the error; $6: the entry of its journal.
-- Called by slots/internal/record.Writer.addFailed.
update prescient.future_job
set error_count = 1,
    last_error = $5,
    journal = prescient.journal_add(journal, $6)
where entity_name = $2 and entity_key = $3 and job = $1 and item_key = '' and payload::jsonb = $4::jsonb
returning id
