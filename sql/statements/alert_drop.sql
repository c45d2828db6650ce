-- Removes findings ($1) that are over. One that was silenced after the look had read it stays, with its silence.
-- Called by slots/alert.decision.write.
delete from prescient.alert
where finding = any ($1::text[])
    and (silenced_until is null or silenced_until <= clock_timestamp())
