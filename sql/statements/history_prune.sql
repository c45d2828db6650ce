select partition, rows
from prescient.drop_history_months($1, $2)
