-- What is known of schedules that do not wait. Asked for when they and their rows of future_job are locked: a statement that
-- has waited for a lock knows what is in the locked row by then, and of other tables what was there before.
select id, runs, last_at
from prescient.schedule_drop
where id = any ($1::text[])
