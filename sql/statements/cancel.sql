select prescient.cancel($1, $2, $3, $4)
