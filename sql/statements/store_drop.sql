-- Copies of rows that store $1 has not given, and never will.
delete from prescient.store_in
where source = $1 and batch = any ($2::bigint[])
returning 1
