-- Records the outcome of one row.
select prescient.record_row($1, $2, $3, $4, $5, $6, $7, $8, $9::timestamptz, $10, $11::jsonb, $12, $13, $14, $15, $16::timestamptz, $17)
