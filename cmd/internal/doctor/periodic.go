package doctor

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/periodic"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
)

// periodicRows finds rows of periodic functions that this binary has not registered, or has with another crontab,
// and functions without a row.
func periodicRows(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	rows, err := periodic.Rows(ctx, tx, c.Schema, nil)
	if err != nil {
		return nil, err
	}
	registry := cmp.Or(c.Registry, jobs.NewRegistry())
	waits := map[string]bool{}
	for _, row := range rows {
		waits[row.JobExec] = true
		switch d, known := registry.Lookup(row.JobExec); {
		case !known && !c.Knows(row.JobExec):
			found = append(found, note(fmt.Sprintf("periodic function %s waits for %s, and this binary does not have it",
				row.JobExec, spoken.Instant(row.Stamp.Instant)),
				"keep a binary that has it, or, if it was removed or renamed: %s jobs cancel %s %s %s", c.Name,
				spoken.Word(row.JobExec), periodic.Entity, spoken.Word(row.JobExec)))
		case known && d.Crontab == "":
			found = append(found, note(fmt.Sprintf("job %s has a row of a periodic function, and is none in this binary",
				row.JobExec), "%s jobs cancel %s %s %s", c.Name, spoken.Word(row.JobExec), periodic.Entity,
				spoken.Word(row.JobExec)))
		case known && row.Differs(d.Crontab, d.Zone):
			found = append(found, note(fmt.Sprintf("periodic function %s waits by crontab %q%s, and this binary has %q%s",
				row.JobExec, row.Stamp.Crontab, zone(row.Stamp.Zone), d.Crontab, zone(d.Zone)),
				"the next run of this binary changes it. If another binary changes it back, end that one"))
		}
	}
	for d := range registry.All() {
		if d.Crontab != "" && !waits[d.Name] {
			found = append(found, note(fmt.Sprintf("periodic function %s has no row yet", d.Name),
				"the next run makes it, and so does: %s migrate up", c.Name))
		}
	}
	return found, nil
}

// zone returns the zone of a crontab for a message.
func zone(name string) string {
	if name == "" {
		return ""
	}
	return " in " + name
}
