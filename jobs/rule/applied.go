package rule

import "fmt"

// Applied is a rule as the database keeps it: what was applied, and what the catalog said about it
// then. Column definition of table rule has it as JSON.
//
// Its texts of SQL are read in the same way with any search_path: names are quoted, and those of
// functions and operators are qualified. Columns have no qualifier.
type Applied struct {
	Rule Rule `json:"rule"`
	// Calendars has the calendars that the steps of Rule name.
	Calendars map[string]Calendar `json:"calendars,omitempty"`
	// Relation is the table, with its schema, quoted where SQL needs it.
	Relation string `json:"relation"`
	// Key is the column of the key, as SQL.
	Key string `json:"key"`
	// KeyType is the type of the key's column, as SQL text with its schema, such as bigint.
	KeyType string `json:"key_type"`
	// Since is the column from which delays count, as SQL.
	Since string `json:"since"`
	// About is the condition of the rows that the rule is about: Rule.Where, and an instant in Since
	// to count from.
	About string `json:"about"`
	// Done is the condition that the expected thing has happened, which is null or false for not yet. Or it is the
	// column of the instant at which it happens, see DoneBy.
	Done string `json:"done"`
	// DoneAt tells that Done is a column of instants. Otherwise it is a condition.
	DoneAt bool `json:"done_at,omitempty"`
	// Payload has the columns of Rule.Payload, as SQL.
	Payload []string `json:"payload,omitempty"`
	// Reads has the columns whose values decide whether and when a row waits, as SQL: Key, Since,
	// and those of About and Done.
	Reads []string `json:"reads"`
}

// Query returns the SQL of a step, by its position from 0, with a parameter for each value that it
// names. Empty: the step has no SQL.
func (a Applied) Query(step int) string {
	query, _ := statement(a.Rule.Steps[step].SQL, a.KeyType)
	return query
}

// DoneBy returns the condition that the expected thing has happened by an instant, which is SQL of type timestamptz. A
// later value of the column Done means not yet, infinity means never, and -infinity means always.
func (a Applied) DoneBy(instant string) string {
	if a.DoneAt {
		return fmt.Sprintf("(%s <= %s)", a.Done, instant)
	}
	return "(" + a.Done + ")"
}
