-- Who took part in a slot: a forecast goes by what that many have done before.

-- +goose Up
alter table prescient.slot_run
    add column runners integer not null default 0,
    add column workers integer not null default 0;

comment on column prescient.slot_run.runners is 'how many runners were at the slot at once, at the most; 0: it had nothing to do, or is from before this was counted';
comment on column prescient.slot_run.workers is 'how many checks all of them together did at once, at the most';

update prescient.setting
set schema_version = 12;

-- +goose Down
update prescient.setting
set schema_version = 11;
alter table prescient.slot_run
    drop column workers,
    drop column runners;
