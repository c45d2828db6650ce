select prescient.cancel_entity($1, $2)
