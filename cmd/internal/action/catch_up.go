package action

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// CatchUp repairs missed slots, as the command does, for the jobs that are registered in the binary
// that serves. It goes on when Do has returned, one at a time.
type CatchUp struct {
	Mode   slots.Mode `json:"mode"` // run, defer or expire
	Since  time.Time  `json:"since,omitzero"`
	Until  time.Time  `json:"until,omitzero"`
	Job    string     `json:"job"`    // empty: every job
	Limit  int64      `json:"limit"`  // rows at most; 0: all
	Spread int        `json:"spread"` // slots over which defer spreads the rows; 0: one
}

var catchUpForm = form(Form{
	Name: "catch-up", Summary: "Repair missed slots",
	Title: "Catch up", Verb: "Catch up",
	Lead: "Repairs slots that were missed, left open, or have rows that came late: " +
		"the oldest first, for the jobs that are registered with the binary that serves this page.",
	Fields: []Field{
		{Name: "mode", Label: "What to do with the rows", Options: []Option{
			{string(slots.ModeRun), "run: check each now, or apply the misfire policy of its job"},
			{string(slots.ModeDefer), "defer: move them to coming slots, unchecked"},
			{string(slots.ModeExpire), "expire: end rows past the deadline of their job"},
		}},
		{Name: "job", Label: "Job", Hint: "Empty: every job.", Names: Jobs},
		{Name: "since", Label: "From slot", Hint: pastHint},
		{Name: "until", Label: "Up to slot", Hint: pastHint},
		{Name: "limit", Label: "Maximum number of rows", Hint: "Empty: all."},
		{Name: "spread", Label: "Slots over which defer spreads", Hint: "Empty: the next one."},
	},
}, func(in *Input) CatchUp {
	return CatchUp{
		Mode: slots.Mode(cmp.Or(in.Text("mode"), string(slots.ModeRun))), Job: in.Text("job"),
		Since: in.past("since"), Until: in.past("until"),
		Limit: in.number("limit", 1<<40), Spread: int(in.number("spread", maxSpread)),
	}
})

// maxSpread is that of slots.CatchUp.
const maxSpread = 100_000

// Target names the slots.
func (c CatchUp) Target() string {
	text := "missed slots" + narrowed(" of job ", c.Job)
	if !c.Since.IsZero() {
		text += " from " + clock(c.Since)
	}
	if !c.Until.IsZero() {
		text += " until " + clock(c.Until)
	}
	return text
}

// Config is the catch-up of a runner.
func (c CatchUp) Config() slots.CatchUp {
	return slots.CatchUp{
		Mode: c.Mode, Since: c.Since, Until: c.Until, Job: c.Job, Limit: c.Limit, Spread: c.Spread,
	}
}

// modes describes what each mode does with rows.
var modes = map[slots.Mode]string{
	slots.ModeRun:    "Checks each row, or defers or skips it, by the misfire policy of its job",
	slots.ModeDefer:  "Moves every row to the next slots, unchecked",
	slots.ModeExpire: "Ends the rows that are past the deadline of their job, and leaves the other rows",
}

func (c CatchUp) check(*Store) error {
	if _, known := modes[c.Mode]; !known {
		return &jobs.FieldError{Field: "mode", Message: "must be run, defer or expire"}
	}
	switch {
	case c.Spread > 1 && c.Mode != slots.ModeDefer:
		return &jobs.FieldError{Field: "spread", Message: "works only with mode defer"}
	case c.Spread < 0 || c.Spread > maxSpread:
		return &jobs.FieldError{Field: "spread", Message: fmt.Sprintf("must be 0 to %d", maxSpread)}
	case c.Limit < 0:
		return &jobs.FieldError{Field: "limit", Message: "must not be negative"}
	}
	return CheckWords(c.Job)
}

func (c CatchUp) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	if err := tx.requireJob(ctx, c.Job); err != nil {
		return plan, err
	}
	knows, err := tx.Ledger.In(reserved.Caller{}, tx.Tx).Knows(ctx, tx.Runner.Registry)
	if err != nil {
		return plan, err
	}
	found, err := c.Find(ctx, tx)
	if err != nil {
		return plan, err
	}
	w := c.left(knows, found)
	rows := w.rows
	if c.Limit > 0 && c.Limit < rows.N {
		rows = ledger.Count{N: c.Limit}
	}
	plan.Rows, plan.Slots = rows.N, w.slots+found.Empty
	plan.Nothing = plan.Slots == 0
	plan.Text = fmt.Sprintf("%s: %s in %s", modes[c.Mode], c.howMany(rows), spoken.Count(w.slots, "slot", "slots"))
	switch {
	case w.slots > 0 && found.Empty > 0:
		plan.Text += ", and closes " + EmptySlots(found.Empty)
	case found.Empty > 0:
		plan.Text = "Closes " + EmptySlots(found.Empty)
	}
	plan.Warnings = w.warnings(c)
	plan.Fingerprint = []any{w.slots, found.Empty, w.unregistered}
	return plan, nil
}

// EmptySlots counts slots that were missed and have no rows.
func EmptySlots(n int64) string {
	return spoken.Count(n, "missed slot", "missed slots") + " without rows"
}

// Found lists the slots that a catch-up would work on.
type Found struct {
	Slots     []FoundSlot
	MoreSlots int64 // slots with rows that Slots does not list
	Empty     int64 // slots that were missed and have no rows
}

// FoundSlot is a slot with rows that wait.
type FoundSlot struct {
	slots.MissedSlot
	Live bool // a run works on the slot, and catch-up leaves it to that run
	Jobs []ledger.JobCount
}

// Find lists what the catch-up would work on.
func (c CatchUp) Find(ctx context.Context, tx Tx) (found Found, err error) {
	runner, err := slots.NewRunner(ctx, tx.Runner)
	if err != nil {
		return found, err
	}
	cfg := c.Config()
	cfg.DryRun = true
	caught, err := runner.CatchUp(ctx, cfg)
	if err != nil {
		return found, err
	}
	found.MoreSlots, found.Empty = caught.MoreSlots, caught.Empty
	found.Slots, err = c.Waiting(ctx, tx, caught.Slots)
	return found, err
}

// Waiting returns what waits in each of these slots.
func (c CatchUp) Waiting(ctx context.Context, tx Tx, list []slots.MissedSlot) ([]FoundSlot, error) {
	if _, err := tx.Tx.ExecContext(ctx, pg.SlotIndexOnly.In(tx.Schema)); err != nil {
		return nil, err
	}
	status, err := tx.Ledger.In(reserved.Caller{}, tx.Tx).Status(ctx, c.Since)
	if err != nil {
		return nil, err
	}
	trouble := map[time.Time]ledger.Trouble{}
	for _, t := range slices.Concat(status.Trouble, status.Running) {
		trouble[t.Slot] = t
	}
	found := make([]FoundSlot, len(list))
	for i, missed := range list {
		t := trouble[missed.Slot.UTC()]
		found[i] = FoundSlot{MissedSlot: missed, Live: t.Live > 0}
		for _, j := range t.Jobs {
			if c.Job == "" || c.Job == j.JobExec {
				found[i].Jobs = append(found[i].Jobs, j)
			}
		}
	}
	return found, nil
}

// left counts what catch-up finds.
type left struct {
	slots        int64
	rows         ledger.Count
	live         int64    // slots that catch-up leaves to a run
	unregistered []string // jobs that catch-up leaves to another binary
}

func (c CatchUp) left(knows func(job string) bool, found Found) (w left) {
	for _, slot := range found.Slots {
		if slot.Live {
			w.live++
			continue
		}
		w.slots++
		for _, j := range slot.Jobs {
			if knows(j.JobExec) {
				w.rows = w.rows.Plus(j.Waiting)
			} else {
				w.unregistered = append(w.unregistered, j.JobExec)
			}
		}
	}
	w.slots += found.MoreSlots
	w.rows.AtLeast = w.rows.AtLeast || found.MoreSlots > 0 // of which the rows are not counted
	slices.Sort(w.unregistered)
	w.unregistered = slices.Compact(w.unregistered)
	return w
}

func (w left) warnings(c CatchUp) (list []string) {
	if len(w.unregistered) > 0 {
		list = append(list, "The rows of these jobs stay, because this binary does not have the jobs: "+
			strings.Join(w.unregistered, ", ")+
			". Run catch-up with a binary that has them.")
	}
	if w.live > 0 {
		list = append(list, spoken.Count(w.live, "slot is", "slots are")+" left to the run that works on it.")
	}
	if c.Mode == slots.ModeExpire && w.rows.N > 0 {
		list = append(list,
			"The number of rows is an upper bound: it counts all late rows, but only rows past their deadline end.")
	}
	if c.Mode == slots.ModeRun && w.rows.N > 0 {
		list = append(list, "The checks run in this process.")
	}
	return list
}

// howMany says how many rows catch-up handles. Only a look at each row finds which are past their
// deadline.
func (c CatchUp) howMany(rows ledger.Count) string {
	text := rows.Of("row", "rows")
	if c.Mode == slots.ModeExpire && rows.N > 0 {
		text = "those of " + text
	}
	return text
}

func (c CatchUp) run(ctx context.Context, s *Store, _ string) (Report, error) {
	runner, err := slots.NewRunner(ctx, s.Runner)
	if err != nil {
		return nil, err
	}
	caught, err := runner.CatchUp(ctx, c.Config())
	return Caught{caught}, err
}

// Caught reports on CatchUp.
type Caught struct{ slots.Caught }

// String sums up the slots.
func (c Caught) String() string {
	n := c.Total
	text := spoken.Count(n.Slots, "slot was", "slots were") + " worked on"
	if c.Empty > 0 {
		text += fmt.Sprintf(", and %s %s closed", EmptySlots(c.Empty), spoken.Noun(c.Empty, "was", "were"))
	}
	text += fmt.Sprintf("; of %s %d moved and %d failed", spoken.Count(n.Checked, "row", "rows"), n.Rescheduled, n.Failed)
	if open := n.Slots - n.Done; open > 0 {
		text += fmt.Sprintf("; %s open", spoken.Count(open, "slot was left", "slots were left"))
	}
	return text
}
