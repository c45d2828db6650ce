-- name: InsertOrder :exec
insert into orders (id, customer) values ($1, $2);
