-- Returns why the triggers of a rule must not call a function ($1) with their role ($2, or null for the current one), or null.
-- And whether it gives the same answer with all settings of a session but the time zone: it reads and makes no texts of
-- values, and calls only functions of the server about plain types, which are immutable, or about instants.
-- Called by internal/rulestore.resolver.refused.
select
    prescient.refuse_routine($1::regprocedure, $2::text),
    p.prosqlbody::text !~ '\{(COERCEVIAIO|ARRAYCOERCEEXPR|ROWCOMPAREEXPR|XMLEXPR|JSON[A-Z]+) '
    and not exists (
        select
        from regexp_matches(p.prosqlbody::text, ':(?:funcid|opfuncid) (\d+)', 'g') as m (number)
        left join pg_proc f on f.oid = m.number[1]::oid and f.pronamespace = 'pg_catalog'::regnamespace
            and f.proargtypes::oid[] || f.prorettype <@
                '{bool,int2,int4,int8,float4,float8,numeric,text,varchar,bpchar,uuid,date,timestamp,timestamptz,time,interval,json,jsonb}'::regtype[]::oid[]
            and (
                f.provolatile = 'i' and f.proname !~ '^quote_'
                or f.proname ~ '^(date|timestamp|timestamptz)_(eq|ne|lt|le|gt|ge)_(date|timestamp|timestamptz)$'
                or f.proname in (
                    'date', 'timestamp', 'timestamptz', 'timestamptz_pl_interval', 'timestamptz_mi_interval', 'interval_pl_timestamptz',
                    'date_part', 'date_trunc', 'extract'
                )
            )
        where f.oid is null
    )
from pg_proc p
where p.oid = $1::regprocedure
