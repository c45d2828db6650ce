package rulestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	"github.com/prescient-go/prescient/slots/grid"
)

// walk reads the table of a rule in the order of its keys, page by page.
type walk struct {
	store  *Store
	rule   understood
	timing *rule.Timing
	grid   grid.Grid
	// known tells that rows may wait already, or steps may have fired.
	known bool
	// recoversAt is Status.RecoversAt.
	recoversAt time.Time
	// steps has the names of the steps that have the times that they had when the rows began to wait.
	steps map[string]bool
	// after is the last key that was read. Empty: the first page.
	after string
	// until is the last key that the table had when the walk began: rows that are inserted later
	// have triggers. Empty: not known yet.
	until string
}

// page is a part of the table.
type page struct {
	rows []row
	now  time.Time
	last string // the last key
	end  bool   // no row comes after it

	decider decider
	decided []decision // one for each row
}

// read reads the page after the last key.
func (w *walk) read(ctx context.Context, tx *sqlx.Tx) (p page, err error) {
	if _, err := tx.ExecContext(ctx, rulesession.Read); err != nil {
		return p, err
	}
	if w.until == "" {
		last := fmt.Sprintf("select %s as prescient_key from %s order by %s desc limit 1", w.rule.KeyText(""),
			w.rule.Relation, strings.Join(w.rule.Key, " desc, "))
		err := pg.One(ctx, tx, last, nil, &w.until)
		if errors.Is(err, sql.ErrNoRows) {
			return page{end: true}, nil
		}
		if err != nil {
			return p, err
		}
	}
	rows, err := tx.QueryContext(ctx, w.query(), w.store.clock())
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }()
	p.rows = make([]row, 0, w.store.cfg.PageSize)
	for rows.Next() {
		var r found
		if err := rows.Scan(&r.key, &r.since, &r.id, &r.slot, &r.requested, &r.from, &r.of, &r.leftOut, &r.errors, &r.fired,
			&r.due, &r.recovers, &r.left, &r.came, pq.Array(&r.held), &r.doneAt,
			&r.paused, &r.pauses, &r.read, &r.now); err != nil {
			return p, err
		}
		if r.read.Valid { // the last row is about the page
			p.last, p.end, p.now = r.key.String, int(r.read.Int64) < w.store.cfg.PageSize, r.now.Time
			continue
		}
		if n := len(r.key.String); n < 1 || n > maxKey {
			key := w.rule.Key.String()
			if len(w.rule.Key) > 1 {
				key = w.rule.KeyText("")
			}
			return p, w.rule.Rule.Problem("key", "a row has a key of %d bytes, and may have 1 to %d. Leave such rows out with "+
				"where: octet_length(%s) between 1 and %[2]d", n, maxKey, key)
		}
		p.rows = append(p.rows, r.row(w.rule.Facts))
		if err := w.checkDelays(p.rows[len(p.rows)-1]); err != nil {
			return p, err
		}
	}
	p.now = p.now.UTC()
	p.decider = decider{
		Decider: rule.Decider{Rule: w.rule.Rule, Timing: w.timing, Facts: w.rule.Facts, Grid: w.grid},
		now:     p.now, first: rule.FirstToCome(w.grid, p.now), known: w.steps,
	}
	for _, r := range p.rows {
		p.decided = append(p.decided, p.decider.decide(r))
	}
	return p, rows.Err()
}

// leaveAll leaves all rows as they are.
func (p *page) leaveAll() {
	for i := range p.decided {
		p.decided[i] = decision{fate: leave}
	}
}

// checkDelays returns a Problem if a delay that the data of a row hold is too long.
func (w *walk) checkDelays(r row) error {
	if len(r.Held) == 0 || !r.Counts {
		return nil
	}
	timing := w.timing.For(r.Held, r.Pauses)
	for i, s := range w.rule.Rule.Steps {
		if s.Interval == "" {
			continue
		}
		_, err := timing.Nth(i, r.Since, 1)
		if _, unknown := errors.AsType[*rule.UnknownName](err); err != nil && !unknown {
			return w.rule.Rule.Problem(fmt.Sprintf("steps[%d].after", i+1), "row %s: %v", r.Key, err)
		}
	}
	return nil
}

// maxKey bounds the bytes of a key.
const maxKey = 500

// found is a row of the query of a page.
type found struct {
	key       sql.NullString
	since     sql.NullInt64 // microseconds since 1970
	id        sql.NullInt64
	slot, now sql.NullTime
	requested sql.NullTime
	from, of  sql.NullString
	leftOut   sql.NullString
	errors    sql.NullInt64
	fired     pq.StringArray // as rule.Repetition names them
	due       pq.Int64Array  // when those were due, in microseconds since 1970; 0: not known
	recovers  pq.BoolArray   // whether they have fired since the rule has Rule.Recovered
	left      sql.NullTime   // steps before it were left out when one fired
	came      sql.NullString
	doneAt    sql.NullTime
	held      []sql.NullString
	paused    sql.NullBool
	pauses    pq.Int64Array // see rule.Pauses
	read      sql.NullInt64
}

func (f *found) row(facts expr.Facts) row {
	r := row{
		Row: rule.Row{
			Key: f.key.String, There: true, About: true, DoneAt: f.doneAt.Time, Held: expr.ReadHeld(f.held),
			Paused: f.paused.Bool, Pauses: rule.Pauses(facts, f.pauses, f.paused.Bool),
		},
		waits: f.id.Valid, id: f.id.Int64, slot: f.slot.Time.UTC(), requested: f.requested.Time,
		errors: int(f.errors.Int64),
	}
	if f.since.Valid {
		r.Since, r.Counts = time.UnixMicro(f.since.Int64).UTC(), true
	}
	m := &r.memory
	m.Fired = map[string]rule.Occurrence{}
	recovers := false
	for i, name := range f.fired {
		step, n := rule.ParseRepetition(name)
		o := rule.Occurrence{Number: n}
		if f.due[i] != 0 {
			o.At = time.UnixMicro(f.due[i]).UTC()
		}
		if n >= m.Fired[step].Number {
			m.Fired[step] = o
		}
		recovers = recovers || f.recovers[i] && step != rule.MetStep
	}
	if _, told := m.Fired[rule.RecoveredStep]; recovers && !told {
		m.Starts = []rule.Start{{Since: r.Since, Fired: true}}
	}
	// An application may have written something else, which is an error of its check alone.
	m.From, _ = time.Parse(time.RFC3339Nano, f.from.String)
	m.Came, _ = time.Parse(time.RFC3339Nano, f.came.String)
	_ = json.Unmarshal([]byte(f.leftOut.String), &r.leftOut)
	if of, err := time.Parse(time.RFC3339Nano, f.of.String); err == nil && !of.Equal(r.Since) {
		m.From, r.leftOut = time.Time{}, nil // they are about another start of the clock
	}
	m.From = grid.Later(m.From, f.left.Time.UTC())
	return r
}

var pageTemplate = template("page")

// query returns the query of the next page.
func (w *walk) query() string {
	between := fmt.Sprintf("where %s <= %s", w.rule.KeyRow(), w.rule.KeyValue(w.until))
	if w.after != "" {
		between += fmt.Sprintf(" and %s > %s", w.rule.KeyRow(), w.rule.KeyValue(w.after))
	}
	var ordered, last []string
	for i, column := range w.rule.KeyColumns(w.rule.Name()) {
		ordered = append(ordered, fmt.Sprintf("%s as prescient_key%d", column, i+1))
		last = append(last, fmt.Sprintf("p.prescient_key%d desc", i+1))
	}
	recoversAt := "null::timestamptz"
	if !w.recoversAt.IsZero() {
		recoversAt = "timestamptz " + pq.QuoteLiteral(string(pq.FormatTimestamp(w.recoversAt)))
	}
	f := w.rule.Facts
	since, start := f.SinceSQL(), f.StartSQL()
	key, name := w.rule.KeyText(w.rule.Name()), pq.QuoteLiteral(w.rule.Rule.Name)
	if len(f.Changed) > 0 {
		noted := pg.NewStatement(
			"select c.changed_at from prescient.rule_changed c where c.job = (select prescient.find_job(%s))")
		changed := fmt.Sprintf(`greatest(%s::timestamptz, (`+noted.In(w.store.schema)+` and c.entity_key = %s collate "C"))`,
			pq.QuoteLiteral(string(pq.FormatTimestamp(f.ChangedFrom))), name, key)
		if len(f.Since) > 0 { // a change has no value without a time zone
			start = fmt.Sprintf("case when %s >= %s then %s end", since, changed, start)
		}
		since = fmt.Sprintf("greatest(%s, %s)", since, changed)
	}
	return strings.NewReplacer(
		"{key}", key, "{keys}", strings.Join(ordered, ", "), "{last}", strings.Join(last, ", "),
		"{order}", strings.Join(w.rule.KeyColumns(w.rule.Name()), ", "), "{since}", since, "{start}", start,
		"{paused}", f.PausedSQL(), "{pauses}", strconv.FormatBool(len(f.Pause) > 0),
		"{about}", f.WhereSQL(), "{starts}",
		strconv.FormatBool(f.SinceLookup()), "{held}", f.HeldSQL(),
		"{done_at}", f.DoneAtSQL(), "{done}", f.DoneSQL(present),
		"{relation}", w.rule.Relation, "{between}", between, "{limit}", strconv.Itoa(w.store.cfg.PageSize),
		"{recovers_at}", recoversAt, "{known}", strconv.FormatBool(w.known),
		"{name}", name, "{entity}", pq.QuoteLiteral(w.rule.Rule.Entity),
	).Replace(pageTemplate.In(w.store.schema))
}

// write lets the rows of a page wait as the rule says.
func (w *walk) write(ctx context.Context, tx *sqlx.Tx, p page) error {
	var begun, moved batch
	for i, r := range p.rows {
		switch what := p.decided[i]; what.fate {
		case begin:
			begun.add(r, what)
		case retime:
			moved.add(r, what)
		case leave:
		}
	}
	if err := w.send(ctx, tx, pg.RuleEnqueue, begun.enqueueArgs(w.rule.Rule)); err != nil {
		return err
	}
	return w.send(ctx, tx, pg.RuleRetime, moved.retimeArgs(w.rule.Rule))
}

// send runs a statement for the rows of a batch.
func (w *walk) send(ctx context.Context, tx *sqlx.Tx, statement pg.Statement, args []any) error {
	if args == nil {
		return nil
	}
	var n int64
	return pg.One(ctx, tx, statement.In(w.store.schema), append(args, w.store.clock()), &n)
}

// payload returns what the check that decides about the steps of a row needs to know. Empty: nothing.
func (d decision) payload() string {
	if d.from.IsZero() && d.came.IsZero() {
		return ""
	}
	text, _ := json.Marshal(struct { // never fails
		From    time.Time `json:"from,omitzero"`
		Since   time.Time `json:"since,omitzero"`
		Came    time.Time `json:"came,omitzero"`
		LeftOut []string  `json:"left_out,omitempty"`
	}{d.from.UTC(), d.since.UTC(), d.came.UTC(), d.leftOut})
	return string(text)
}

// batch is what the rows of a page get, a slice for each column.
type batch struct {
	keys     []string
	slots    []string // that they wait for
	ids      []int64
	were     []string // the instants that they were requested for
	ats      []string
	payloads []string
	more     bool // there is a payload
}

func (b *batch) add(r row, what decision) {
	b.keys = append(b.keys, r.Key)
	b.ats = append(b.ats, string(pq.FormatTimestamp(what.at)))
	payload := what.payload()
	b.payloads = append(b.payloads, payload)
	b.more = b.more || payload != ""
	if r.waits {
		b.slots = append(b.slots, string(pq.FormatTimestamp(r.slot)))
		b.ids = append(b.ids, r.id)
		b.were = append(b.were, string(pq.FormatTimestamp(r.requested)))
	}
}

// enqueueArgs returns the parameters of statement rule_enqueue. Nil: there is no row.
func (b *batch) enqueueArgs(r rule.Rule) []any {
	switch {
	case len(b.keys) == 0:
		return nil
	case !b.more:
		return []any{r.Name, r.Entity, pq.Array(b.keys), pq.Array(b.ats), nil}
	}
	return []any{r.Name, r.Entity, pq.Array(b.keys), pq.Array(b.ats), pq.Array(b.payloads)}
}

// retimeArgs returns the parameters of statement rule_retime. Nil: there is no row.
func (b *batch) retimeArgs(r rule.Rule) []any {
	if len(b.keys) == 0 {
		return nil
	}
	return []any{
		r.Name, pq.Array(b.slots), pq.Array(b.ids), pq.Array(b.were), pq.Array(b.ats), pq.Array(b.payloads),
	}
}
