-- Moves waiting checks of a rule to the slots of other instants. See the function retime.
-- Called by jobs/rule/rulestore.walk.write.
select prescient.retime($1, $2, $3, $4, array_replace($5::text[], '', null), array_replace($6::bigint[], 0, null), $7)
