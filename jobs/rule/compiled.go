package rule

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// compiled is a rule as a check uses it.
type compiled struct {
	Applied
	text   string // of the definition
	timing *Timing
	query  string     // for the rows of keys
	asks   bool       // the query has the instant as a second parameter
	sql    []prepared // of each step; empty: none
	// again tells that a step had fired for a row at its first check, see page.remember.
	again atomic.Bool
	pace  pace // of its statements
	// locked is when a page last found the table locked. Nil: none has.
	locked atomic.Pointer[time.Time]
}

// prepared is the SQL of a step.
type prepared struct {
	query  string
	values []string
}

// lock returns a rule as it is now, and the slots. An apply that changes the rule waits for the end of the
// transaction. Returns nil if the rule was removed.
func (c *checker) lock(ctx context.Context, tx *sqlx.Tx, name string) (r *compiled, slots grid.Grid, err error) {
	var state, definition string
	var width int64
	err = tx.QueryRowContext(ctx, pgsql.RuleLock.In(c.Schema), name).Scan(&state, &definition, &width)
	if errors.Is(err, sql.ErrNoRows) || err == nil && state == "removing" {
		return nil, slots, nil
	}
	if err == nil {
		slots, err = grid.New(time.Duration(width) * time.Second)
	}
	if err != nil {
		return nil, slots, fmt.Errorf("read rule %s: %w", name, pgsql.ExplainMissing(err))
	}
	if known, ok := c.rules.Load(name); ok && known.(*compiled).text == definition {
		return known.(*compiled), slots, nil
	}
	if r, err = compile(definition); err != nil {
		return nil, slots, fmt.Errorf("rule %s cannot be read by this version: %w", name, err)
	}
	c.rules.Store(name, r)
	return r, slots, nil
}

func compile(definition string) (*compiled, error) {
	r := &compiled{text: definition}
	if err := json.Unmarshal([]byte(definition), &r.Applied); err != nil {
		return nil, err
	}
	var err error
	if r.timing, err = NewTiming(r.Rule, r.Calendars); err != nil {
		return nil, err
	}
	r.query = r.RowsQuery()
	r.asks = strings.Contains(r.query, "$2")
	for _, s := range r.Rule.Steps {
		var p prepared
		p.query, p.values = statement(s.SQL, r.KeyType)
		r.sql = append(r.sql, p)
	}
	return r, nil
}
