package rule

// Applied is a rule as the database keeps it: what was applied, and what the catalog said about it
// then.
type Applied struct {
	Rule Rule `json:"rule"`
	// Calendars has the calendars that the steps of Rule name.
	Calendars map[string]Calendar `json:"calendars,omitempty"`
	// Relation is the table, with its schema, quoted where SQL needs it.
	Relation string `json:"relation"`
	// KeyType is the type of the key's column, as SQL text with its schema, such as bigint.
	KeyType string `json:"key_type"`
	// DoneAt tells that Rule.Done is the name of a column of instants. Otherwise it is a condition.
	DoneAt bool `json:"done_at,omitempty"`
}
