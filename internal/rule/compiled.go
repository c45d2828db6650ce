package rule

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/strictjson"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// compiled is a rule as a check uses it.
type compiled struct {
	Applied
	text   string // of the definition
	timing *Timing
	query  string     // for the rows of keys
	asks   bool       // the query has the instant as a second parameter
	sql    []prepared // of each step; empty: none
	// notify has the message of each step, recovered that of Rule.Recovered, and met that of Rule.Met. Nil: none.
	notify         []*notifier
	recovered, met *notifier
	pace           pace // of its statements
	// locked is when a page last found the table locked. Nil: none has.
	locked atomic.Pointer[time.Time]
}

// prepared is the SQL of a step.
type prepared struct {
	query  string
	values []string
}

// lock returns a page of rows with their rule as it is now. An apply that changes the rule waits for the end of the
// transaction. The rule is nil if it was removed.
func (c *checker) lock(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) (*page, error) {
	p := &page{
		checker: c, tx: tx, rows: rows, turns: make([]turn, len(rows)), results: make([]jobs.Result, len(rows)),
		began: time.Now(), //nolint:forbidigo // measures how long ago
	}
	name := rows[0].JobExec
	var state, definition string
	var width int64
	err := tx.QueryRowContext(ctx, pg.RuleLock.In(c.Schema), name, rows[0].Slot).
		Scan(&state, &definition, &p.created, &width, &p.horizon)
	if errors.Is(err, sql.ErrNoRows) || err == nil && state == "removing" {
		return p, nil
	}
	if err == nil {
		p.grid, err = grid.New(time.Duration(width) * time.Second)
	}
	if err != nil {
		return nil, fmt.Errorf("read rule %s: %w", name, pg.ExplainMissing(err))
	}
	if known, ok := c.rules.Load(name); ok && known.(*compiled).text == definition {
		p.rule = known.(*compiled)
		return p, nil
	}
	if p.rule, err = compile(definition); err != nil {
		return nil, fmt.Errorf("rule %s cannot be read by this version: %w", name, err)
	}
	c.rules.Store(name, p.rule)
	return p, nil
}

// decider returns what decides about the rows of the rule.
func (r *compiled) decider(slots grid.Grid) Decider {
	return Decider{Rule: r.Rule, Timing: r.timing, Facts: r.Facts, Grid: slots}
}

func compile(definition string) (*compiled, error) {
	r := &compiled{text: definition}
	// A later version may have written the rule. Without a field of that version, such as a zone of the row, steps would
	// fire at other instants.
	if err := strictjson.Unmarshal([]byte(definition), &r.Applied); err != nil {
		return nil, err
	}
	var err error
	if r.timing, err = NewTiming(r.Rule, r.Calendars); err != nil {
		return nil, err
	}
	r.query = r.RowsQuery()
	r.asks = slices.ContainsFunc(r.Facts.Done, func(e expr.Expr) bool { return e.Type.When() })
	for _, s := range r.Rule.Steps {
		var p prepared
		p.query, p.values = statement(s.SQL, r.Applied)
		r.sql = append(r.sql, p)
		r.notify = append(r.notify, newNotifier(s.Notify, stepText))
	}
	r.recovered = newNotifier(r.Rule.Recovered.Notify, overText)
	r.met = newNotifier(r.Rule.Met.Notify, metText)
	return r, nil
}
