-- Writes the row of the job of a new rule ($1), from which an enqueue with an older snapshot finds out that
-- there is a rule; see the function require_rights.
-- Called by internal/rulestore.Store.install.
insert into prescient.job as j (job, name)
values (prescient.job_number($1), $1)
on conflict (name) do update
set registered_at = j.registered_at
