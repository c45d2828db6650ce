select prescient.make_history_months()
