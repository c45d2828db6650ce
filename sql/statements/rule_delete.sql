-- Deletes a rule ($1) that is being removed. Its job is then as one that no run has ever known, and that is not paused.
-- Called by internal/rulestore.Store.delete.
with gone as (
    delete from prescient.rule
    where name = $1 and state = 'removing'
    returning name
), forgotten as (
    update prescient.job j
    set registered_at = null,
        told_on = null,
        paused_at = null,
        paused_by = null
    from gone
    where j.name = gone.name
)
select name from gone
