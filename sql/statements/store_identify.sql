-- Tells a store from others, where nobody has yet.
update prescient.setting
set store = $1
where store is null
returning 1
