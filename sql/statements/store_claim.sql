-- From here on nobody else takes rows away: this waits for who is doing so.
update prescient.setting
set mover = $1
returning 1
