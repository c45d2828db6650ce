-- Keeps the width from being changed until the transaction ends, as the functions that write do: before next_slot, or rows would
-- go to slots of the grid before. To read nothing locks the table.
select from prescient.future_job where false
