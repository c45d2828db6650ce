create table orders (id bigint primary key, shipped_at timestamptz);
create table alert (order_id bigint not null);
