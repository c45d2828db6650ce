package story

import (
	"fmt"
	"strings"
)

// Script is in every text that Hostile writes: markup that runs where a page does not escape it,
// and a mark that turns what follows around.
const Script = `<script>hacked=1</script>"'><img src=x onerror=hacked=1>{{.}}` + "\u202e"

// Hostile puts Script into every column of the store that holds text and takes it. It puts a text
// as long as the column takes into the first 50 rows and the last 50 rows of each table. It returns
// the columns.
func (w *World) Hostile() (columns []string) {
	w.t.Helper()
	var all []struct {
		Table, Column, Type string
		First, Last         string // orders of the table's rows
	}
	w.must(w.DB.Select(&all, `
		select c.table_name as "table", c.column_name as "column", c.udt_name as type,
			coalesce(k.first, 'tableoid, ctid') as first, coalesce(k.last, 'tableoid desc, ctid desc') as last
		from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
		left join lateral (
			select string_agg(quote_ident(a.attname), ', ' order by n) as first,
				string_agg(quote_ident(a.attname) || ' desc', ', ' order by n) as last
			from pg_index i, unnest(i.indkey::smallint[]) with ordinality as key (attnum, n)
			join pg_attribute a using (attnum)
			where i.indisprimary and i.indrelid = format('prescient.%I', c.table_name)::regclass and a.attrelid = i.indrelid
		) as k on true
		where c.table_schema = 'prescient' and t.table_type = 'BASE TABLE' and c.is_generated = 'NEVER'
			and c.udt_name in ('text', 'json', 'jsonb', '_text')
			and c.table_name not in ('setting', 'migration')
			and c.column_name not in ('journal', 'attempts') -- which the store alone writes
		order by 1, 2`))
	for _, c := range all {
		value := map[string]string{
			"text": `"%[2]s" || $1::text`, "json": `to_json($1::text)`,
			"jsonb": `to_jsonb($1::text)`, "_text": `array[$1::text]`,
		}[c.Type]
		update := fmt.Sprintf(`update prescient."%[1]s" set "%[2]s" = `+value, c.Table, c.Column)
		if _, err := w.DB.Exec(update, Script); err != nil {
			continue // it takes no such text
		}
		columns = append(columns, c.Table+"."+c.Column)
		for _, order := range []string{c.First, c.Last} {
			few := fmt.Sprintf(` where (tableoid, ctid) in (select tableoid, ctid from prescient."%s" order by %s limit 50)`,
				c.Table, order)
			for _, length := range []int{100_000, 3_000, 300, 100} {
				if _, err := w.DB.Exec(update+few, strings.Repeat("W", length)); err == nil {
					break
				}
			}
		}
	}
	return columns
}
