package rule

// Definition is a rule as it was applied, with what it means on its table. Column definition of
// table rule has it as JSON.
type Definition struct {
	// Rule is the rule as the file says it.
	Rule Rule `json:"rule"`
	// Calendars has the calendars that the steps name.
	Calendars map[string]Calendar `json:"calendars,omitempty"`
	// Target is the table.
	Target Target `json:"target"`
}

// Target says what a rule means on its table. Its texts are SQL, which is read in the same way with
// any search_path: names are quoted and qualified, operators too. Columns have no qualifier.
type Target struct {
	// Relation is the table: shop.orders.
	Relation string `json:"relation"`
	// Key is the column of the key, and KeyType its type.
	Key     string `json:"key"`
	KeyType string `json:"key_type"`
	// Since is the column from which delays count.
	Since string `json:"since"`
	// About is the condition of the rows that the rule is about: Rule.Where, and an instant in Since
	// to count from.
	About string `json:"about"`
	// Done is the condition that the expected thing has happened. It may be null, for not yet.
	Done string `json:"done"`
	// DoneAt is the column with the instant at which it happened. Empty: Rule.Done is a condition.
	DoneAt string `json:"done_at,omitempty"`
	// Payload are the columns of Rule.Payload.
	Payload []string `json:"payload,omitempty"`
	// Reads are the columns whose values decide whether and when a row waits: Key, Since, and those
	// of the conditions.
	Reads []string `json:"reads"`
}
