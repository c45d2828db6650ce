package rulestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	pgsql "github.com/prescient-go/prescient/sql"
)

// zone compares what this binary and the server know about a time zone, which both read: the server computes the
// instant of a timestamp, and the binary the steps. It returns in what they differ. Empty: in nothing. refused tells
// that no update of zone data would mend it.
func (s *Store) zone(ctx context.Context, name string) (differs string, refused bool, err error) {
	here, err := time.LoadLocation(name)
	if name == "" || name == "UTC" || err != nil {
		return "", false, nil //nolint:nilerr // the file was read with the zone
	}
	type week struct {
		at           time.Time
		shift        int
		abbreviation bool
	}
	var weeks []week
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) (err error) {
		if _, err := tx.ExecContext(ctx, rulesession.Read); err != nil {
			return err
		}
		weeks, err = pg.Collect(ctx, tx, pg.RuleZone.In(s.schema), []any{name},
			func(row *sql.Rows, w *week) error { return row.Scan(&w.at, &w.shift, &w.abbreviation) })
		return err
	})
	switch {
	case pg.HasState(err, pqerror.InvalidParameterValue):
		return fmt.Sprintf("the server does not know time zone %s: update its zone data, or write an older name", name),
			true, nil
	case err != nil:
		return "", false, fmt.Errorf("ask the server about time zone %s: %w", name, err)
	}
	for _, w := range weeks {
		_, shift := w.at.In(here).Zone()
		switch {
		case shift == w.shift:
		case w.abbreviation:
			return fmt.Sprintf("%s is an abbreviation for the server, whose clocks never change: write a place, such as "+
				"Europe/Berlin", name), true, nil
		default:
			offset := func(seconds int) string { return w.at.In(time.FixedZone("", seconds)).Format("-07:00") }
			return fmt.Sprintf("clocks of %s differ on %s: %s by the zone data of this binary, and %s by those of the server. "+
				"Update the older ones", name, w.at.UTC().Format(time.DateOnly), offset(shift), offset(w.shift)), false, nil
		}
	}
	return "", false, nil
}

// otherClocks warns of an instant without a time zone that is read by the clocks of UTC, in a rule whose calendar has
// other clocks.
func otherClocks(r rule.Applied) (warnings []string) {
	calendar := slices.IndexFunc(r.Rule.Steps, func(s rule.Step) bool {
		zone := r.Calendars[s.Calendar].Timezone
		return zone != "" && zone != "UTC"
	})
	if r.Rule.Timezone != "" || r.Rule.TimezoneName != "" || calendar < 0 {
		return nil
	}
	name := r.Rule.Steps[calendar].Calendar
	warn := func(field string, list []expr.Expr) {
		for _, e := range list {
			if e.Type != expr.Local && e.Type != expr.Date {
				continue
			}
			problem := r.Rule.Problem(field, "%s has no time zone, so it counts by the clocks of UTC, but those of calendar %s "+
				"are of %s. Write timezone: %[3]s or timezone: UTC", e.SQL, name, r.Calendars[name].Timezone)
			problem.Rule = ""
			warnings = append(warnings, problem.Error())
		}
	}
	warn("since", r.Facts.Since)
	warn("done", r.Facts.Done)
	return warnings
}
