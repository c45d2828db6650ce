package view

import "github.com/prescient-go/prescient/slots/ledger"

// OverdueRows is a number of overdue rows as JSON.
type OverdueRows struct {
	// Overdue rows; counting stops at 100,000, or at 1,000 of each job and slot if that is more.
	Overdue        int64 `json:"overdue"`
	OverdueAtLeast bool  `json:"overdue_at_least"` // counting stopped at overdue: there are that many or more
}

// NewOverdueRows returns a count as JSON.
func NewOverdueRows(c ledger.Count) OverdueRows { return OverdueRows{c.N, c.AtLeast} }

// OverdueCount returns the count.
func (v OverdueRows) OverdueCount() ledger.Count {
	return ledger.Count{N: v.Overdue, AtLeast: v.OverdueAtLeast}
}
