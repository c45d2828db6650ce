-- What became of a record that got no reply: done, when its mark is there; else whether the claim still is.
-- Called by slots/internal/record.Recorder.Find.
-- Called by slots/internal/txn.Checker.sameDatabase.
select
    exists (select from prescient.slot_progress where slot = $1 and token = $2 and part = $3)
        or exists (select from prescient.slot_run where slot = $1 and closed_by = $2) as done,
    exists (select from prescient.slot_claim where token = $2) as held
