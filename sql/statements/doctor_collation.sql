-- Returns the collations that tables of the database use and whose version is not that of the system
-- any more, with the statements that mend them. The first is that of the database. Prescient's own keys
-- compare by their bytes.
-- Called by cmd/internal/doctor.collations.
select
    'the database' as name, d.datcollversion as was, pg_database_collation_actual_version(d.oid) as version,
    format('reindex database %1$I; alter database %1$I refresh collation version', d.datname) as mends
from pg_catalog.pg_database d
where d.datname = current_database()
    and d.datcollversion <> pg_database_collation_actual_version(d.oid)
union all
select
    format('%s of %s', string_agg(distinct format('%I.%I', n.nspname, c.relname), ', '), format('%I.%I', m.nspname, o.collname)),
    o.collversion, pg_collation_actual_version(o.oid),
    format(
        '%s; alter collation %I.%I refresh version',
        string_agg(distinct format('reindex table %I.%I', n.nspname, c.relname), '; '), m.nspname, o.collname
    )
from pg_catalog.pg_collation o
join pg_catalog.pg_namespace m on m.oid = o.collnamespace
join pg_catalog.pg_attribute a on a.attcollation = o.oid and not a.attisdropped
join pg_catalog.pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'm')
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where o.collversion <> pg_collation_actual_version(o.oid)
group by o.oid, o.collname, o.collversion, m.nspname
