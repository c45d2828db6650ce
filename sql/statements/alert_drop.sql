-- Removes findings ($1) that are over.
-- Called by slots/alert.decision.write.
delete from prescient.alert
where finding = any ($1::text[])
