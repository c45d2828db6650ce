-- When rows are finished, as runs have learned it from history.

-- +goose Up
create table prescient.learned_curve (
    job_exec    text               not null,
    class       text               not null,
    ages        bigint[]           not null,
    finished    double precision[] not null,
    sampled     bigint             not null,
    computed_at timestamptz        not null,
    constraint learned_curve_pkey primary key (job_exec, class),
    constraint learned_curve_points check (cardinality(ages) = cardinality(finished))
);

comment on table prescient.learned_curve is 'for each job that is registered with Learned, and each class of its rows, what part of them was finished at which age';
comment on column prescient.learned_curve.class is 'the value of the field of LearnedBy; empty: all rows of the job';
comment on column prescient.learned_curve.ages is 'in seconds after the first slot of a row, in order; none: there is too little history';
comment on column prescient.learned_curve.finished is 'the part of the rows that was finished by then: from 0 to 1';
comment on column prescient.learned_curve.sampled is 'how many rows of history it is from';
comment on column prescient.learned_curve.computed_at is 'when, by the clock that slots are compared with';

update prescient.setting
set schema_version = 14;

-- +goose Down
update prescient.setting
set schema_version = 13;
drop table prescient.learned_curve;
