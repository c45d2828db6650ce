create table shop.orders (
    id         integer     not null,
    placed_at  timestamptz not null,
    shipped_at timestamptz,
    constraint orders_pkey primary key (id)
);

create table shop.alerts (
    order_id  integer     not null,
    alert     text        not null,
    slot      timestamptz not null,
    caught_up boolean     not null,
    late      bigint      not null,
    constraint alerts_pkey primary key (order_id, alert)
);
