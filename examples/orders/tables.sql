-- The shop's own tables. "shop." stands for the schema they are in; see shop.sql in check.go.

create table if not exists shop.orders (
    id         text        not null,
    placed_at  timestamptz not null,
    shipped_at timestamptz,
    constraint orders_pkey primary key (id)
);

-- One alert of a kind for each order: a second one would be an error.
create table if not exists shop.alerts (
    order_id text        not null,
    alert    text        not null,
    slot     timestamptz not null,
    constraint alerts_pkey primary key (order_id, alert),
    constraint alerts_alert check (alert in ('primary', 'final'))
);
