-- Returns a login that runs slots, if neither it nor another login that does so may take role $1. Null: one can, or it is
-- not known which logins run.
-- Called by jobs/schedule.Store.checkRole.
select prescient.refusing_login($1)
