-- Fails unless the transaction has this number: otherwise the check has ended its transaction.
create or replace function prescient.same_check(transaction text)
returns void
language plpgsql
as $$
begin
    if pg_current_xact_id_if_assigned()::xid::text is distinct from transaction then
        raise exception 'transaction % of the check was ended', transaction using errcode = 'PS002';
    end if;
end
$$;
