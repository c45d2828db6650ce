-- Keeps the width from being changed until the transaction ends, as the functions that write do: before next_slot, or rows would
-- go to slots of the grid before.
lock table prescient.future_job in row exclusive mode
