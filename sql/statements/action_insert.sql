-- Records what an operator has asked for; $9: its outcome so far, $10: and the result.
select id, at, ended_at, by_role
from prescient.record_action($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
