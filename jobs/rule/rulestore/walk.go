package rulestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/rule"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// walk reads the table of a rule in the order of its keys, page by page.
type walk struct {
	store  *Store
	rule   understood
	timing *rule.Timing
	grid   grid.Grid
	// known tells that rows may wait already, or steps may have fired.
	known bool
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
}

// read reads the page after the last key.
func (w *walk) read(ctx context.Context, tx *sqlx.Tx) (p page, err error) {
	if w.until == "" {
		last := fmt.Sprintf("select %s::text as prescient_key from %s order by %s desc limit 1", w.rule.Key, w.rule.Relation, w.rule.Key)
		err := pgsql.One(ctx, tx, last, nil, &w.until)
		if errors.Is(err, sql.ErrNoRows) {
			return page{end: true}, nil
		}
		if err != nil {
			return p, err
		}
	}
	rows, err := tx.QueryContext(ctx, w.query())
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r row
		var key, from sql.NullString
		var since, slot sql.NullTime
		var id sql.NullInt64
		var fired pq.StringArray
		var read int
		if err := rows.Scan(&key, &since, &id, &slot, &from, &r.errors, &fired, &read, &p.now); err != nil {
			return p, err
		}
		if !since.Valid {
			p.last, p.end = key.String, read < w.store.cfg.PageSize
			continue
		}
		r.key, r.since, r.fired = key.String, since.Time.UTC(), fired
		r.waits, r.id, r.slot = id.Valid, id.Int64, slot.Time.UTC()
		if from.String != "" {
			if r.from, err = time.Parse(time.RFC3339Nano, from.String); err != nil {
				return p, fmt.Errorf("read the payload of the check of %s: %w", r.key, err)
			}
		}
		p.rows = append(p.rows, r)
	}
	if w.store.cfg.Now != nil {
		p.now = w.store.cfg.Now()
	}
	p.now = p.now.UTC()
	return p, rows.Err()
}

var pageTemplate = template("page")

// query returns the query of the next page.
func (w *walk) query() string {
	between := fmt.Sprintf("where %s <= %s::%s", w.rule.Key, pq.QuoteLiteral(w.until), w.rule.KeyType)
	if w.after != "" {
		between += fmt.Sprintf(" and %s > %s::%s", w.rule.Key, pq.QuoteLiteral(w.after), w.rule.KeyType)
	}
	return strings.NewReplacer(
		"{key}", w.rule.Key, "{since}", w.rule.Since, "{about}", w.rule.About, "{done}", "("+w.rule.Done+")", "{relation}", w.rule.Relation,
		"{between}", between, "{limit}", strconv.Itoa(w.store.cfg.PageSize), "{known}", strconv.FormatBool(w.known),
		"{name}", pq.QuoteLiteral(w.rule.Rule.Name), "{entity}", pq.QuoteLiteral(w.rule.Rule.Entity),
	).Replace(pageTemplate.In(w.store.schema))
}

// decider returns what decides about the rows of a page.
func (w *walk) decider(p page) decider {
	return decider{rule: w.rule.Rule, timing: w.timing, grid: w.grid, now: p.now}
}

// count adds to a plan what an apply would do with a page.
func (w *walk) count(p page, plan *RulePlan) {
	d := w.decider(p)
	for _, r := range p.rows {
		what := d.decide(r)
		plan.Counting++
		if what.passed {
			plan.Overdue++
		}
		switch what.fate {
		case begin:
			plan.Begin++
			plan.slots[d.slot(r, what)]++
		case retime:
			plan.Retimed++
			plan.slots[d.slot(r, what)]++
		case leave:
			if r.waits {
				plan.Waiting++
			}
		}
	}
}

// write lets the rows of a page wait as the rule says.
func (w *walk) write(ctx context.Context, tx *sqlx.Tx, p page) error {
	d := w.decider(p)
	var begun []jobs.FutureJob
	var moves moves
	for _, r := range p.rows {
		switch what := d.decide(r); what.fate {
		case begin:
			begun = append(begun, w.check(r, what))
		case retime:
			moves.add(r, what)
		case leave:
		}
	}
	if len(begun) > 0 {
		if _, err := w.store.client.EnqueueMany(ctx, tx, begun, jobs.Keep); err != nil {
			return err
		}
	}
	if len(moves.ids) == 0 {
		return nil
	}
	var moved int64
	return pgsql.One(ctx, tx, pgsql.RuleRetime.In(w.store.schema), moves.args(w.rule.Rule.Name, w.store.cfg.Now), &moved)
}

// check returns the check of a row.
func (w *walk) check(r row, what decision) jobs.FutureJob {
	check := jobs.FutureJob{JobExec: w.rule.Rule.Name, EntityName: w.rule.Rule.Entity, EntityKey: r.key}
	check.CheckAt, check.Within = what.at, what.within
	if !what.from.IsZero() {
		check.Payload = []byte(payloadFrom(what.from))
	}
	return check
}

// payloadFrom returns the payload of a check that leaves out the steps before an instant.
func payloadFrom(from time.Time) string {
	return fmt.Sprintf(`{"from": "%s"}`, from.UTC().Format(time.RFC3339Nano))
}

// moves are the parameters of statement rule_retime.
type moves struct {
	slots, ats []string
	ids        []int64
	payloads   []string
	withins    []int64
}

func (m *moves) add(r row, what decision) {
	m.slots = append(m.slots, r.slot.Format(time.RFC3339Nano))
	m.ids = append(m.ids, r.id)
	m.ats = append(m.ats, what.at.UTC().Format(time.RFC3339Nano))
	payload := ""
	if !what.from.IsZero() {
		payload = payloadFrom(what.from)
	}
	m.payloads = append(m.payloads, payload)
	m.withins = append(m.withins, int64(what.within/time.Second))
}

func (m *moves) args(name string, now func() time.Time) []any {
	var clock any
	if now != nil {
		clock = now()
	}
	return []any{name, pq.Array(m.slots), pq.Array(m.ids), pq.Array(m.ats), pq.Array(m.payloads), pq.Array(m.withins), clock}
}
