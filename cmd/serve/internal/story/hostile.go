package story

import (
	"fmt"
	"strings"
)

// Script is in every text that Hostile writes: markup that runs where a page does not escape it, and a mark that turns what
// follows around.
const Script = `<script>hacked=1</script>"'><img src=x onerror=hacked=1>{{.}}` + "\u202e"

// Hostile puts Script into every column of the store that holds text and takes it, with a text as long as the column takes. It
// returns those columns.
func (w *World) Hostile() (columns []string) {
	w.t.Helper()
	var all []struct {
		Table, Column, Type string
	}
	w.must(w.DB.Select(&all, `
		select c.table_name as "table", c.column_name as "column", c.udt_name as type
		from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
		where c.table_schema = 'prescient' and t.table_type = 'BASE TABLE' and c.is_generated = 'NEVER' and c.udt_name in ('text', 'json', 'jsonb', '_text')
			and c.table_name not in ('setting', 'migration') and c.column_name not in ('trace', 'attempts') -- which the store alone writes
		order by 1, 2`))
	for _, c := range all {
		value := map[string]string{"text": `"%[2]s" || $1::text`, "json": `to_json($1::text)`, "jsonb": `to_jsonb($1::text)`, "_text": `array[$1::text]`}[c.Type]
		update := fmt.Sprintf(`update prescient."%[1]s" set "%[2]s" = `+value, c.Table, c.Column)
		if _, err := w.DB.Exec(update, Script); err != nil {
			continue // it takes no such text
		}
		columns = append(columns, c.Table+"."+c.Column)
		for _, length := range []int{100_000, 3_000, 300} { // of a few rows
			few := fmt.Sprintf(` where ctid in (select ctid from prescient."%s" order by random() limit 10)`, c.Table)
			if _, err := w.DB.Exec(update+few, strings.Repeat("W", length)); err == nil {
				break
			}
		}
	}
	return columns
}
