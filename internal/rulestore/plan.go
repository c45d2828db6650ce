package rulestore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Plan returns what Apply would do with the rules of a file, and changes nothing. It reads each
// table, page by page. The error joins a Problem for each mistake, and a RightsError if the login may
// not read the table. told is told of the rows that were read. It may be nil.
func (s *Store) Plan(ctx context.Context, file rule.File, told func(Progress)) (Plan, error) {
	plan, err := s.prepare(ctx, file, false)
	if err != nil {
		return Plan{}, err
	}
	for i := range plan.Rules {
		f := newForecast(plan.Rules[i].rule.Applied)
		progress := Progress{Rule: plan.Rules[i].Name}
		read := func(p page) {
			f.add(p)
			if progress.Rows += int64(len(p.rows)); told != nil {
				told(progress)
			}
		}
		if err := s.count(ctx, &plan.Rules[i], read); err != nil {
			return Plan{}, s.unread(ctx, plan.Rules[i], err)
		}
		plan.Rules[i].Forecast = f.list()
		if err := s.beside(ctx, plan.Rules[i].Slots); err != nil {
			return Plan{}, fmt.Errorf("count what waits in the slots of rule %s: %w", plan.Rules[i].Name, err)
		}
	}
	return plan, nil
}

// unread adds the table and the rule to an error about reading the table, unless it is a Problem of the file.
func (s *Store) unread(ctx context.Context, p RulePlan, err error) error {
	err = s.Explain(ctx, p.rule.Applied, err)
	if problem, ok := errors.AsType[*rule.Problem](err); ok {
		return problem
	}
	return fmt.Errorf("read table %s for rule %s: %w", p.Table, p.Name, err)
}

// prepare finds out what is to do, without reading the tables. create tells that the login will
// create triggers.
func (s *Store) prepare(ctx context.Context, file rule.File, create bool) (Plan, error) {
	known, err := s.List(ctx)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	var problems []error
	for _, asked := range file.Rules {
		i := slices.IndexFunc(known, func(k Status) bool { return k.Rule.Name == asked.Name })
		var was *Status
		if i >= 0 {
			was = &known[i]
		}
		p, err := s.prepareRule(ctx, file, resolver{store: s, rule: asked, reading: !create}, was)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		plan.Rules = append(plan.Rules, p)
	}
	for _, k := range known {
		if !slices.ContainsFunc(file.Rules, func(r rule.Rule) bool { return r.Name == k.Rule.Name }) {
			plan.Unlisted = append(plan.Unlisted, k.Rule.Name)
		}
	}
	for i := range plan.Rules {
		plan.Rules[i].renamed(known, plan.Unlisted)
	}
	return plan, errors.Join(problems...)
}

func (s *Store) prepareRule(ctx context.Context, file rule.File, r resolver, was *Status) (RulePlan, error) {
	asked := r.rule
	u, err := s.understand(ctx, file, r)
	if u.KeyType != nil {
		err = errors.Join(err, s.statements(ctx, u))
	}
	if err != nil {
		return RulePlan{}, err
	}
	from, err := s.notedFrom(ctx, &u, was)
	if err != nil {
		return RulePlan{}, err
	}
	p := RulePlan{
		Name: asked.Name, Table: u.Relation, Action: Create, rule: u, was: was, walks: true, slots: map[time.Time]int64{},
		Unseen: u.unseen(),
	}
	never, err := s.never(ctx, u.Applied)
	if err == nil {
		p.Warnings, err = s.lookups(ctx, u.Applied)
	}
	var lacking []string
	if err == nil {
		lacking, err = s.lacking(ctx, u)
	}
	if err != nil {
		return RulePlan{}, err
	}
	p.Warnings = slices.Concat(lacking, never, p.Warnings, floods(u.Applied), otherClocks(u.Applied), u.mixed, from)
	if u.zone != "" {
		p.Warnings = append(p.Warnings, u.zone)
	}
	if p.timing, err = rule.NewTiming(u.Rule, u.Calendars); err != nil {
		return RulePlan{}, asked.Problem("steps", "%v", err)
	}
	if was == nil {
		was, err = s.refuseWaiting(ctx, asked)
		p.was = was
	}
	if err != nil {
		return RulePlan{}, err
	}
	fill := u.filler(s.schema, p.timing)
	before, after, all := triggersOf(s.schema, u, fill)
	key, err := s.find(ctx, u, was, all)
	if err != nil {
		return RulePlan{}, fmt.Errorf("find the triggers of rule %s: %w", asked.Name, err)
	}
	if was != nil {
		moved, err := s.moved(ctx, *was, u)
		if err != nil {
			return RulePlan{}, fmt.Errorf("find the table of rule %s: %w", asked.Name, err)
		}
		if err := p.compare(*was, moved, key); err != nil {
			return RulePlan{}, err
		}
	}
	for _, t := range all {
		// Rows that were written without a trigger do not wait. One of another version has missed none.
		p.walks = p.walks || !t.works
		if !t.there {
			p.Triggers = append(p.Triggers, t.name)
		}
		// Those of a new rule have let nothing wait until now.
		if !t.there || was == nil {
			p.before, p.triggers, p.after = u.settings(s.schema)+before, append(p.triggers, t), after
		}
	}
	if err := s.planAlso(ctx, &p, fill); err != nil {
		return RulePlan{}, fmt.Errorf("find the triggers of rule %s: %w", asked.Name, err)
	}
	if was != nil && len(p.triggers)+len(p.also) > 0 && p.Action == Unchanged {
		p.Action = Change
	}
	if s.again {
		p.walks = true
		if p.Action == Unchanged {
			p.Action = Again
		}
	}
	return p, nil
}

// notedFrom sets the instants from which changed(...) counts for rows that have not changed since, and from which rows
// are paused that were before. They stay when a rule is applied again. It returns a warning for each that is that of
// the apply.
func (s *Store) notedFrom(ctx context.Context, u *understood, was *Status) (warnings []string, err error) {
	f, old := &u.Facts, expr.Facts{}
	if !f.Noted() {
		return nil, nil
	}
	if was != nil {
		old = was.Facts
	}
	var now time.Time
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &now, "select "+present, s.clock())
	})
	note := func(has, same bool, from *time.Time, before time.Time, warning string) {
		switch {
		case !has:
		case same:
			*from = before
		default:
			*from, warnings = now.UTC(), append(warnings, warning)
		}
	}
	note(len(f.Changed) > 0, slices.Equal(f.Changed, old.Changed), &f.ChangedFrom, old.ChangedFrom,
		"no table tells when the rows that are there have changed: their clocks start with the apply")
	note(len(f.Pause) > 0, slices.Equal(f.Pause, old.Pause), &f.PausedFrom, old.PausedFrom,
		"no table tells since when the rows that are there are paused: their pauses begin with the apply")
	return warnings, err
}

// refuseWaiting returns an error if checks of the job of a new rule wait already. They may have instants
// and payloads that are not those of the rule. If another apply has made the rule meanwhile, the checks are
// its own, and refuseWaiting returns the rule.
func (s *Store) refuseWaiting(ctx context.Context, asked rule.Rule) (*Status, error) {
	found, err := admin.New(s.client).PreviewCancel(ctx, s.db, admin.CancelFilter{JobExec: asked.Name})
	if err != nil || found.Checks == 0 {
		return nil, err
	}
	made, err := s.Get(ctx, asked.Name)
	if !errors.Is(err, ErrNotFound) {
		return &made, err
	}
	return nil, asked.Problem("name", "%s of job %s wait already: cancel them with `prescient jobs cancel %[2]s`, or "+
		"give the rule another name", spoken.Count(found.Checks, "check", "checks"), spoken.Word(asked.Name))
}

// find marks the triggers that the table has, and those that it has in the same version. It returns the names that the
// columns have now which were the key when the rule was applied. Nil: they are not known.
func (s *Store) find(ctx context.Context, u understood, was *Status, all []trigger) (key []string, err error) {
	var found []struct {
		Name     string         `db:"name"`
		Body     string         `db:"body"`
		Argument string         `db:"argument"`
		Definer  bool           `db:"definer"`
		Behind   bool           `db:"behind"`
		Reads    pq.StringArray `db:"reads"`
	}
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		found = nil
		return tx.SelectContext(ctx, &found, pg.RuleTriggers.In(s.schema), u.Relation,
			pq.Array(triggerNames(s.schema, u.Applied)), pg.Rules.In(s.schema),
			triggerName(s.schema, u.Rule.Name, rowFunction))
	})
	for i := range all {
		t := &all[i]
		for _, f := range found {
			argument := ""
			if t.argument != "" {
				argument = hex.EncodeToString([]byte(t.argument + "\x00"))
			}
			usable := f.Name == t.name && f.Definer && !f.Behind && len(f.Reads) > 0
			t.there = t.there || usable && f.Body == t.body && f.Argument == argument && slices.Equal(f.Reads, u.Reads)
			if usable && was != nil && len(f.Reads) == len(was.Reads) {
				key = nil
				for _, column := range was.Key {
					key = append(key, f.Reads[slices.Index(was.Reads, column)]) // Reads has the key
				}
				usable = !u.replaced(was.Reads, f.Reads)
			}
			t.works = t.works || usable
		}
	}
	return key, err
}

// replaced reports whether a column has taken the name of another that triggers read. was has the names
// of those columns when the rule was applied, and is the names now.
func (u understood) replaced(was, is []string) bool {
	for i, name := range was {
		named := func(c column) bool { return pq.QuoteIdentifier(c.Name) == name }
		if name != is[i] && slices.ContainsFunc(u.table.columns, named) {
			return true
		}
	}
	return false
}

// walk returns a walk over the table of the rule.
func (s *Store) walk(p *RulePlan) *walk {
	w := &walk{store: s, rule: p.rule, timing: p.timing, grid: s.client.Grid(), known: p.was != nil}
	if p.was != nil {
		w.steps, w.recoversAt = p.timedAsBefore(), p.was.RecoversAt
	}
	return w
}

// count reads the table and fills in the numbers of a rule. also is called with each page.
func (s *Store) count(ctx context.Context, p *RulePlan, also func(page)) error {
	w := s.walk(p)
	for {
		var next page
		err := pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) (err error) {
			next, err = w.read(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		p.count(next)
		if !p.walks {
			next.leaveAll()
		}
		also(next)
		if w.after = next.last; next.end {
			break
		}
	}
	if !p.walks { // an apply does not touch the rows
		p.Waiting, p.Begin, p.Retimed, p.Overdue = p.Waiting+p.Retimed, 0, 0, 0
		clear(p.slots)
	}
	p.close()
	return nil
}

// beside fills in what waits already in the first slots.
func (s *Store) beside(ctx context.Context, slots []SlotCount) error {
	slots = slots[:min(len(slots), besideSlots)]
	if len(slots) == 0 {
		return nil
	}
	asked := make([]string, len(slots))
	for i, c := range slots {
		asked[i] = string(pq.FormatTimestamp(c.Slot))
	}
	return pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		_, err := pg.Collect(ctx, tx, pg.RuleBeside.In(s.schema), []any{pq.Array(asked)},
			func(row *sql.Rows, _ *struct{}) error {
				var slot time.Time
				var waiting int64
				err := row.Scan(&slot, &waiting)
				for i := range slots {
					if slots[i].Slot.Equal(slot) {
						slots[i].Waiting = &waiting
					}
				}
				return err
			})
		return err
	})
}

// SQL returns the statements that create the triggers of the rules of a file and their functions,
// for a team's own migrations. An Apply finds them, and creates none again.
func (s *Store) SQL(ctx context.Context, file rule.File) (string, error) {
	text := ""
	var problems []error
	for _, asked := range file.Rules {
		u, err := s.understand(ctx, file, resolver{store: s, rule: asked, reading: true})
		var timing *rule.Timing
		if err == nil {
			timing, err = rule.NewTiming(u.Rule, u.Calendars)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		fill := u.filler(s.schema, timing)
		before, after, all := triggersOf(s.schema, u, fill)
		if text == "" {
			text = u.settings(s.schema)
		}
		text += before
		for _, t := range all {
			text += t.function + "\n" + t.create + "\n\n"
		}
		text += after
		if len(u.Also) > 0 {
			_, also := u.alsoTriggers(s.schema, fill)
			text += also
		}
	}
	return text, errors.Join(problems...)
}
