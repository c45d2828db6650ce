-- The window in which any slot would have done, of rows that were asked for with one.

-- +goose Up
create domain prescient.seconds_within as integer constraint future_job_within check (value between 1 and 31622400);
alter table prescient.future_job
    add column asked_within prescient.seconds_within;
alter table prescient.future_job_history
    add column asked_within integer;

comment on column prescient.future_job.asked_within is 'seconds from the instant that was asked for in which any slot would have done; null: there was no choice';

update prescient.setting
set schema_version = 13;

-- +goose Down
update prescient.setting
set schema_version = 12;
alter table prescient.future_job_history
    drop column asked_within;
alter table prescient.future_job
    drop column asked_within;
drop domain prescient.seconds_within;
