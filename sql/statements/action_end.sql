-- Records how an action that went on has ended.
update prescient.action
set outcome = $2,
    result = $3,
    ended_at = statement_timestamp()
where id = $1 and outcome = 'running'
