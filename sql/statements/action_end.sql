-- Records how an action that went on has ended.
select prescient.end_action($1, $2, $3)
