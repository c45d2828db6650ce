-- Removes findings ($1) that are over. One that was silenced after the look had read it stays, with its silence alone.
-- Called by internal/alert.decision.write.
with silenced as (
    update prescient.alert
    set since = null, told_at = null, stays = false
    where finding = any ($1::text[]) and silenced_until > statement_timestamp()
)
delete from prescient.alert
where finding = any ($1::text[])
    and (silenced_until is null or silenced_until <= statement_timestamp())
