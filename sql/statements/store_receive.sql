select name
from prescient.receive_rows($1, $2, $3, $4, $5, $6, $7) as name
