package doctor

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// migrations also returns whether the schema can be read.
func migrations(ctx context.Context, c Config) (found []Finding, migrated bool, err error) {
	_, err = pgsql.ReadSetting(ctx, c.DB, c.Schema)
	switch {
	case errors.Is(err, pgsql.ErrNotMigrated):
		found = []Finding{
			action("schema "+c.Schema.String()+" is missing, or older than this binary", "%s migrate up", c.Name),
		}
	case errors.Is(err, pgsql.ErrNewer):
		found = []Finding{
			action("schema "+c.Schema.String()+" is newer than this binary, and must not be used by it",
				"install a newer version of this binary"),
		}
	case pg.HasState(err, pqerror.InsufficientPrivilege):
		return nil, true, nil // rights tells, or rowSecurity
	}
	for i := range found {
		found[i].Name, err = "migrations", nil
	}
	return found, err == nil && len(found) == 0, err
}

// permissions are what the login may do.
type permissions struct {
	Name               string
	Super, Reads, Runs bool
	Open               pq.StringArray // schemas of its search_path where every role may create functions
}

// may returns what the login may do.
func (c Config) may(ctx context.Context, tx *sqlx.Tx) (permissions, error) {
	_, _, routines := pgsql.Objects(reserved.Caller{})
	return get[permissions](ctx, tx, c, pg.DoctorRights, c.Schema.String(),
		pq.Array(pg.Overloads(routines, "open_slot", "make_history_months")))
}

func rights(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	may, err := c.may(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, schema := range may.Open {
		schema = pq.QuoteIdentifier(schema)
		found = append(found,
			action("every role may create functions in schema "+schema+", which is in the search_path of "+may.Name+": "+
				"its commands could call them, with its rights",
				"revoke create on schema %s from public", schema))
	}
	switch {
	case may.Super:
		found = append(found,
			note("the commands run as "+may.Name+", a superuser: a query of sql_jobs could read the server's files",
				"make roles (%s migrate roles), and a login that has %s", c.Name, pg.Runner.In(c.Schema)))
	case !may.Runs:
		found = append(found, action(may.Name+" may not run slots: run, catch-up and daemon will fail",
			"grant %s to %s  -- if the role is missing: %s migrate roles",
			pg.Runner.In(c.Schema), pq.QuoteIdentifier(may.Name), c.Name))
	}
	return found, nil
}

// rowSecurity finds tables from which the server refuses to read, because row security would hide rows
// from a login that does not own them. Other checks of the tables would be refused, too.
func rowSecurity(ctx context.Context, tx *sqlx.Tx, c Config) ([]Finding, error) {
	tables, _, _ := pgsql.Objects(reserved.Caller{})
	all, err := list[struct{ Name, Owner string }](ctx, tx, c, pg.DoctorRowSecurity, c.Schema.String(), pq.Array(tables))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var do []string
	as := ""
	for _, t := range all {
		do = append(do, fmt.Sprintf("alter table %s.%s disable row level security, no force row level security",
			c.Schema, t.Name))
		if t.Owner != "" {
			as = "  -- as a member of " + t.Owner
		}
	}
	return []Finding{action("row security is on for "+spoken.Count(int64(len(all)), "table", "tables")+" of prescient: "+
		"it would hide rows, so runs, enqueues and reads end with an error", "%s%s", strings.Join(do, "; "), as)}, nil
}

// beyondClock finds rows that were written while the clock was ahead.
func beyondClock(ctx context.Context, tx *sqlx.Tx, c Config) ([]Finding, error) {
	l, err := ledger.New(ctx, c.DB, c.Schema.String(), nil)
	if err != nil {
		return nil, err
	}
	ahead, err := l.In(reserved.Caller{}, tx).Ahead(ctx)
	if err != nil || ahead.By(l.Grid().Floor(l.Now())) <= time.Minute {
		return nil, err
	}
	return []Finding{action(health.AheadText(ahead), "%s slots rewind", c.Name)}, nil
}

func tables(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	ours, _, _ := pgsql.Objects(reserved.Caller{})
	all, err := list[struct {
		Name              string
		Dead, Live, Bytes int64
		Off               bool
		Owner             string // of the table, if the login has not the rights of that role
	}](ctx, tx, c, pg.DoctorTables, c.Schema.String(), c.Dead, c.Bytes, pq.Array(ours))
	for _, t := range all {
		name, as := c.Schema.String()+"."+t.Name, ""
		if t.Owner != "" {
			as = "  -- as a member of " + t.Owner
		}
		switch {
		case t.Off:
			found = append(found, action("autovacuum is off for "+name, "alter table %s reset (autovacuum_enabled)%s", name, as))
		case t.Dead > max(c.Dead, 2*t.Live):
			found = append(found,
				action(fmt.Sprintf("%s has %d dead rows beside %d: autovacuum does not keep up, or something holds it back", name,
					t.Dead, t.Live),
					"vacuum (verbose, analyze) %s%s", name, as))
		default:
			found = append(found,
				note(fmt.Sprintf("%s takes %d MB for %s", name, t.Bytes>>20, spoken.Count(t.Live, "row", "rows")),
					"vacuum full %s%s  -- locks it: between two slots, or with pg_repack", name, as))
		}
	}
	return found, err
}

func months(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	is, err := get[struct {
		Missing, Taken pq.StringArray
		Rest           sql.NullTime
	}](ctx, tx, c, pg.DoctorMonths)
	if err != nil {
		return nil, err
	}
	if len(is.Missing) > 0 {
		found = append(found,
			action("history has no partition for "+strings.Join(is.Missing, ", ")+", which every run makes ahead",
				"select %s.make_history_months()", c.Schema))
	}
	for _, relation := range is.Taken {
		_, name, _ := strings.Cut(relation, ".")
		found = append(found,
			action(relation+" has the name of a month of history and is no partition of it: "+
				"rows of the month go to the default partition",
				"alter table %s rename to %s_other; select %s.make_history_months()", relation, cmp.Or(name, relation), c.Schema))
	}
	if is.Rest.Valid {
		found = append(found, note("rows of history have gone to the default partition, for want of one of their month",
			"select %s.make_history_month('%s')  -- then repeat this command: more may be missing",
			c.Schema, spoken.Instant(is.Rest.Time)))
	}
	return found, nil
}

// jumps bounds the slots and jobs that are read, which takes a second or two.
const jumps = 20_000

// mostJobs bounds the jobs with a finding each.
const mostJobs = 20

func waitingJobs(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	all, err := list[struct {
		Name string
		Slot time.Time
	}](ctx, tx, c, pg.DoctorJobs, jumps)
	more := 0
	for _, job := range all {
		switch {
		case c.Knows(job.Name):
		case len(found) == mostJobs:
			more++
		default:
			found = append(found, action(
				fmt.Sprintf("rows of job %s wait, the first in slot %s: no run of the last 7 days had it, "+
					"and this binary does not have it", job.Name, spoken.Instant(job.Slot)),
				"run a binary that has it, or cancel them if the name is wrong or its rule was removed. See them with: "+
					"%s jobs list --job %s", c.Name, spoken.Word(job.Name)))
		}
	}
	if more > 0 {
		found = append(found, action(fmt.Sprintf("rows of %d more such jobs wait", more),
			"run a binary that has them, or see their rows with: %s jobs list", c.Name))
	}
	return found, err
}
