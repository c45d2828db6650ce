-- Moves waiting checks of a rule to the slots of other instants. See the function retime.
-- Called by internal/rulestore.walk.write.
select prescient.retime($1, $2, $3, $4, $5, array_replace($6::text[], '', null), $7)
