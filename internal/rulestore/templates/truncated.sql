-- Rule {rule}: what was noted of rows is forgotten with them. Their checks find them gone.
create or replace function {truncate}()
returns trigger
language plpgsql
security definer
{trigger_settings}
as {quote}
begin
    perform prescient.rule_mark({name}, null, null);
    return null;
end
{quote};
