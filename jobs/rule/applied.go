package rule

import (
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs/rule/expr"
)

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
	// Facts are the expressions of Rule, as the server understood them.
	Facts expr.Facts `json:"facts"`
	// Payload has the columns of Rule.Payload, as SQL.
	Payload []string `json:"payload,omitempty"`
	// Reads has the columns that triggers read, as SQL: Key, those of the expressions that they compute, and Asks.
	Reads []string `json:"reads"`
	// Asks has the columns of the row that expressions read which look up when the clock starts, and how long it
	// may take. If one changes, the row is looked at again.
	Asks []string `json:"asks,omitempty"`
	// Looks has the columns of the row that only expressions read which look up something else.
	Looks []string `json:"looks,omitempty"`
}

// Name returns the name of the table without its schema, as SQL. Expressions call the row by it.
func (a Applied) Name() string {
	names, err := ParseName(a.Relation)
	if err != nil || len(names) == 0 {
		return a.Relation
	}
	return pq.QuoteIdentifier(names[len(names)-1])
}

// Query returns the SQL of a step, by its position from 0, with a parameter for each value that it
// names. Empty: the step has no SQL.
func (a Applied) Query(step int) string {
	query, _ := statement(a.Rule.Steps[step].SQL, a.KeyType)
	return query
}
