package backtest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Record says where to read what a rule has fired since it was applied, and how its rows ended.
type Record struct {
	Schema pgsql.Schema
	// Steps has the names of the steps that come at the same times as in the rule that was applied. What other steps have
	// fired says nothing.
	Steps []string
}

// record has the steps that a rule has fired, and the questions that only the history of its rows can answer. A nil
// record knows nothing.
type record struct {
	of *Record
	// fired has the steps that have fired, by key and start of the clock.
	fired map[start]firings
	// unsure has the steps that may have fired for a key, or not, as far as the table tells.
	unsure map[string][]unsure
}

// start is a start of the clock of a row: an instant, or the value behind it if that has no time zone.
type start struct {
	key   string
	since int64 // microseconds since 1970
	value string
}

// firings are the steps that have fired for a start of the clock.
type firings struct {
	since time.Time
	steps map[string]recorded
}

// recorded says how often a step has fired, and when it did last.
type recorded struct {
	times int64
	at    time.Time
}

// unsure is a row that a step may have fired for.
type unsure struct {
	step  string
	month *Counts
}

func newRecord(of *Record) *record {
	if of == nil {
		return nil
	}
	return &record{of: of, fired: map[start]firings{}, unsure: map[string][]unsure{}}
}

func startOf(key string, since time.Time, value string) start {
	if value != "" {
		return start{key: key, value: value}
	}
	return start{key: key, since: since.UnixMicro()}
}

// any reports whether a step has fired.
func (r *record) any() bool { return r != nil && len(r.fired) > 0 }

// take returns the steps that have fired for a start of the clock, once. Nil: none has.
func (r *record) take(key string, since time.Time, value string) map[string]recorded {
	if !r.any() {
		return nil
	}
	of := startOf(key, since, value)
	fired := r.fired[of]
	delete(r.fired, of)
	return fired.steps
}

// lacks notes the key of a row that a step would have fired for, unless that is recorded.
func (r *record) lacks(of *tally, key string, recorded bool) {
	if r != nil && !recorded && len(of.Unrecorded) < maxFirst && r.knows(of.Name) {
		of.Unrecorded = append(of.Unrecorded, key)
	}
}

// knows reports whether the record has the firings of a step.
func (r *record) knows(step string) bool {
	return r != nil && (slices.Contains(r.of.Steps, step) || step == rule.RecoveredStep || step == rule.MetStep)
}

// waits leaves it to the history of a row whether a step fired. False: nothing is known of the step.
func (r *record) waits(key string, of *tally, month *Counts) bool {
	if !r.knows(of.Name) {
		return false
	}
	r.unsure[key] = append(r.unsure[key], unsure{of.Name, month})
	return true
}

// readRecord reads the steps that have fired for rows that the test counts.
func (t *test) readRecord(ctx context.Context, tx *sqlx.Tx) error {
	if t.record == nil {
		return nil
	}
	type one struct {
		key, value, step string
		since, at        time.Time
		times            int64
	}
	args := []any{t.rule.Rule.Name, t.cfg.From, t.before()}
	_, err := pg.Collect(ctx, tx, pg.RuleFiredPast.In(t.record.of.Schema), args, func(row *sql.Rows, _ *struct{}) error {
		var f one
		err := row.Scan(&f.key, &f.since, &f.value, &f.step, &f.times, &f.at)
		if err != nil || !t.record.knows(f.step) {
			return err
		}
		of := startOf(f.key, f.since, f.value)
		if t.record.fired[of].steps == nil {
			t.record.fired[of] = firings{f.since.UTC(), map[string]recorded{}}
		}
		t.record.fired[of].steps[f.step] = recorded{f.times, f.at.UTC()}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what the rule has fired: %w", err)
	}
	return nil
}

// mostEnds bounds the keys whose ends a statement reads.
const mostEnds = 1000

// resolve counts what the table does not tell: rows that ended without a step were done in time, and a row that a step
// has fired for may be gone, or its clock has moved since.
func (t *test) resolve(ctx context.Context, tx *sqlx.Tx) error {
	if t.record == nil {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "set local role none"); err != nil {
		return fmt.Errorf("give back the role: %w", err)
	}
	keys := make([]string, 0, len(t.record.unsure))
	for key := range t.record.unsure {
		keys = append(keys, key)
	}
	for some := range slices.Chunk(keys, mostEnds) {
		args := []any{t.rule.Rule.Name, t.rule.Rule.Entity, pq.StringArray(some)}
		_, err := pg.Collect(ctx, tx, pg.RuleEnded.In(t.record.of.Schema), args, func(row *sql.Rows, _ *struct{}) error {
			var key, found string
			var leftOut pq.StringArray
			err := row.Scan(&key, &found, &leftOut)
			if err == nil && (strings.HasPrefix(found, "done") || found == "outside") {
				t.record.ended(key, leftOut)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("read how the rows ended: %w", err)
		}
	}
	for _, left := range t.record.unsure {
		for _, u := range left {
			u.month.DoneNow++
		}
	}
	t.gone()
	return nil
}

// ended counts a row whose last check found it done, or no longer one of the rule: the steps that have not fired until
// then were met, but for those that were left out.
func (r *record) ended(key string, leftOut []string) {
	r.unsure[key] = slices.DeleteFunc(r.unsure[key], func(u unsure) bool {
		left := slices.ContainsFunc(leftOut, func(name string) bool {
			step, _ := rule.ParseRepetition(name)
			return step == u.step
		})
		if !left {
			u.month.Met++
		}
		return !left
	})
}

// gone counts what is recorded of rows that the table does not have any more, and of clocks that have moved since: the
// steps that have fired, what followed, and the steps that were met because Rule.Met followed.
func (t *test) gone() {
	rows, steps := map[start]bool{}, t.tallies[:len(t.rule.Rule.Steps)]
	named := slices.ContainsFunc(steps, func(s *tally) bool { return s.Name == rule.MetStep })
	for of, fired := range t.record.fired {
		rows[startOf(of.key, fired.since, "")] = true // what Rule.Recovered tells of it may lack the value
		_, inTime := fired.steps[rule.MetStep]
		count := func(tally *tally, index int) {
			was, found := fired.steps[tally.Name]
			switch {
			case found:
				tally.month(fired.since).add(was.times, true)
				t.fire(tally, Fired{Key: of.key, Due: was.at, Slot: t.cfg.Grid.Floor(was.at).UTC(), Number: 1, index: index})
			case inTime && !named && t.record.knows(tally.Name):
				tally.month(fired.since).Met++
			}
		}
		for i, tally := range steps {
			count(tally, i)
		}
		if t.over != nil {
			count(t.over, len(steps))
		}
		if t.met != nil {
			count(t.met, len(steps)+1)
		}
	}
	t.rows += int64(len(rows))
}
