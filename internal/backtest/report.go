package backtest

import (
	"cmp"
	"time"

	"github.com/prescient-go/prescient/internal/rulestore"
)

// Report says what the steps of a rule would have done. Its times are in UTC.
type Report struct {
	Name  string    `json:"name"`  // of the rule
	Table string    `json:"table"` // with its schema
	From  time.Time `json:"from"`  // the rows are those that began to wait from here on; UTC
	To    time.Time `json:"to"`    // the rows are those that began to wait before; UTC
	// Rows is how many rows began to wait in that time.
	Rows int64 `json:"rows"`
	// Unknown is how many rows are left out, because their data name no calendar of the file, or no time zone.
	Unknown int64 `json:"unknown"`
	// Names has up to five names that are not known, those of the most rows first.
	Names []rulestore.NameCount `json:"names"`
	// Recorded tells that the rule is applied with a step of these times: what it has fired counts.
	Recorded bool `json:"recorded"`
	// Steps has each step. Two more stand for Rule.Recovered and Rule.Met, if the rule has them: the first one fires for
	// rows that are done after a step has fired, and the second one for rows that are done in time.
	Steps []Step `json:"steps"`
	// Alternatives say what other delays would have done, each as the only step.
	Alternatives []Step `json:"alternatives"`
	// List has what would have fired, by slot, key and the order of the steps. Empty
	// without Config.List (--list).
	List []Fired `json:"list"`
}

// Step counts what a step would have done.
type Step struct {
	// Name is that of the step. Empty: it is an alternative.
	Name string `json:"name"`
	// When is the time of the step, such as "after 48h".
	When string `json:"when"`
	Counts
	// Months has the counts of each month in which rows began to wait, the earliest first.
	Months []Month `json:"months"`
	// Unrecorded has up to five keys of fired rows for which the step has not fired: they were written before the rule was
	// applied, or have changed since. Empty without Report.Recorded.
	Unrecorded []string `json:"unrecorded"`
	First      []Fired  `json:"first"` // the first five rows for which the step would have fired, by slot
	// Slots has the slots in which the step would have fired, the earliest first.
	Slots []Slot `json:"slots"`
}

// Counts counts rows. Each row is in one of Fired, DoneNow, Met and Open.
type Counts struct {
	// Fired rows were not done at the slot of the step.
	Fired int64 `json:"fired"`
	// DoneNow rows are done by a condition now, and perhaps not yet at the slot.
	DoneNow int64 `json:"done_now"`
	// Met rows were done by then.
	Met int64 `json:"met"`
	// Open rows are not done, and the slot of the step is still to come.
	Open int64 `json:"open"`
	// Again counts how often the step would have fired again for the Fired rows.
	Again int64 `json:"again"`
	// Recorded counts the Fired rows for which the step has fired, as the database recorded it.
	Recorded int64 `json:"recorded"`
}

// add counts a row for which the step has fired that often, or would have.
func (c *Counts) add(times int64, recorded bool) {
	c.Fired, c.Again = c.Fired+1, c.Again+times-1
	if recorded {
		c.Recorded++
	}
}

// end counts a row for which the step would not have fired, or perhaps not.
func (c *Counts) end(met, open bool) {
	switch {
	case met:
		c.Met++
	case open:
		c.Open++
	default:
		c.DoneNow++
	}
}

// Month has the counts of the rows that began to wait in a month.
type Month struct {
	// Month is the first instant of the month.
	Month time.Time `json:"month"`
	Counts
}

// Slot is a slot, and for how many rows the step would have fired in it.
type Slot struct {
	Slot time.Time `json:"slot"`
	Rows int64     `json:"rows"` // for which the step would have fired
}

// Fired says that a step would have fired for a row.
type Fired struct {
	Step string `json:"step"` // its name
	Key  string `json:"key"`  // of the row
	// Due is the exact instant of the step, and Slot the first slot at or after it.
	Due  time.Time `json:"due"`
	Slot time.Time `json:"slot"` // the first at or after Due; UTC
	// Number counts the times that the step is due for the row, from 1.
	Number int `json:"number"`

	index int // of the step
}

func compareFired(a, b Fired) int {
	return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.Key, b.Key), cmp.Compare(a.index, b.index))
}
