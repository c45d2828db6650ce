-- Returns a line of a trace as JSON, in the long form of journal_entry.
create or replace function prescient.journal_value(line text)
returns jsonb
language sql
stable
as $$
    select case
        when line like '[%' or line like '{%' then line::jsonb
        else (
            select jsonb_build_array('next', c.value [1], (
                select r.names [c.value [2]]
                from prescient.slot_run r
                where r.slot = to_timestamp(c.value [1])
            ), c.value [3], c.value [4])
            from (select prescient.journal_check(line) as value) as c
        )
    end
$$;
