-- Whether every transaction from before $1, when the slot was open already, has ended. See lease_claim.
select pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8
