select prescient.leave_places($1, $2, $3)
