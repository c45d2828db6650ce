select prescient.lock_group($1)
