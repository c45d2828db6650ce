-- Counts what a drop of the schema takes along: waiting rows and those of history, each up to 10001, schedules, and the
-- rules with their tables.
-- Called by cmd/internal/migratecmd.contents.
select
    (select count(*) from (select from prescient.future_job limit 10001) as r) as waiting,
    (select count(*) from (select from prescient.future_job_history limit 10001) as r) as ended,
    (select count(*) from prescient.schedule) as schedules,
    (select coalesce(array_agg(r.name || ' on ' || r.relation order by r.name), '{}') from prescient.rule r) as rules
