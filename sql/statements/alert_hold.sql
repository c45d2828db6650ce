-- Counts a look at findings that tells, keeps others from telling until the transaction ends, and returns the time. It
-- returns no row if another look has told since $1 had.
-- Called by internal/alert.Config.tell.
with clock as materialized ( -- apart, so that Citus asks its coordinator
    select statement_timestamp() as at
), held as (
    update prescient.alert_look
    set told = told + 1
    where told = $1
    returning told
)
select clock.at from clock, held
