select prescient.set_width($1 * interval '1 second', $2)
