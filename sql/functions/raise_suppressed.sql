-- Raises the error of a change of future_job that had no effect although nothing prevented it.
-- change names it.
create or replace function prescient.raise_suppressed(change text)
returns void
language plpgsql
as $$
begin
    raise exception '% had no effect: a trigger or rule on table future_job suppresses it or changes the key', change
        using errcode = 'triggered_data_change_violation',
            table = 'future_job',
            hint = 'Drop the trigger, or let it raise an error instead of returning null.';
end
$$;
