package statements

import (
	"regexp"
	"strings"
)

// columnLists are the lists of columns of future_job that several .sql files share, a column in each line. In these
// files {{kept}} stands for the list kept, and {{f.kept}} for the names of its columns in the table or subquery f.
var columnLists = map[string]string{
	// What history keeps as it was. It is also what a row that comes back from history, or moves to another store, has.
	"kept": `
		entity_name
		entity_key
		item_key
		group_key
		first_check_at
		enqueued_at
		enqueued_by
		enqueued_app
		enqueued_actor
		requested_for
		requested_within`,

	// What a bulk enqueue writes, in the order in which jobs.copier sends it.
	"enqueued": `
		job
		entity_name
		entity_key
		item_key
		group_key
		first_check_at
		next_check_at
		payload
		requested_for
		requested_within
		enqueued_by
		enqueued_app
		enqueued_actor
		enqueued_traceparent`,

	// What a check is given. Columns are half of the cost of reading a row, on both sides. So a column is null if the
	// reader knows the value, or if it is nearly always zero. Times are numbers, because the role of the reader decides
	// how a time looks as a text.
	"checked": `
		id
		job
		entity_name
		entity_key
		item_key
		group_key
		(date_part('epoch', nullif(first_check_at, next_check_at)) * 1000000)::bigint as first_check_at
		check_count
		error_count
		last_error
		nullif((date_part('epoch', spent) * 1000000)::bigint, 0) as spent
		payload
		(date_part('epoch', enqueued_at) * 1000000)::bigint as enqueued_at
		enqueued_by
		enqueued_traceparent`,

	// What an operator is shown of a row, while it waits and in history.
	"shown": `
		entity_name
		entity_key
		coalesce(item_key, '') as item_key
		item_key is null as anonymous
		coalesce(group_key, '') as group_key
		first_check_at
		check_count
		error_count
		coalesce(last_error, '') as last_error
		(extract(epoch from spent) * 1000000)::bigint as spent
		payload
		enqueued_at
		enqueued_by`,
}

var columnList = regexp.MustCompile(`\{\{(?:(\w+)\.)?(\w+)\}\}`)

// Expand writes the lists of columns into the text of a .sql file. It panics if there is no such list.
func Expand(text string) string {
	return columnList.ReplaceAllStringFunc(text, func(mark string) string {
		found := columnList.FindStringSubmatch(mark)
		from, list := found[1], columnLists[found[2]]
		if list == "" {
			panic("statements: no list of columns is called " + mark)
		}
		var columns []string
		for line := range strings.Lines(strings.TrimSpace(list)) {
			column := strings.TrimSpace(line)
			if from != "" {
				if _, name, ok := strings.Cut(column, " as "); ok {
					column = name
				}
				column = from + "." + column
			}
			columns = append(columns, column)
		}
		return strings.Join(columns, ", ")
	})
}
