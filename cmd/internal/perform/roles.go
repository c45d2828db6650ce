package perform

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

// AskForRoles asks before a command makes the roles of the schema. If a role loses the schema by that, it says on
// stderr what it loses, and returns an error without --yes.
func AskForRoles(ctx context.Context, f *factory.Factory, db *sqlx.DB, command string, yes bool) error {
	losing, err := pg.RolesLosing(ctx, db, f.Schema())
	if err != nil || len(losing) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.Err(), plain.Text(losses(f.Schema(), losing))); err != nil || yes {
		return err
	}
	return Ask(f, action.Plan{
		What: command, Target: "schema " + f.Schema().String(),
		Text: fmt.Sprintf("Makes the roles of schema %s, and takes its tables from %s", f.Schema(),
			spoken.List(losing)),
		Warnings: []string{"Grant in the same minute."},
	})
}

// losses says what roles lose when the owner role gets the schema, and the grants that give it back.
func losses(schema pgsql.Schema, losing []string) string {
	lines := []string{fmt.Sprintf("%s the tables of schema %s, and may do nothing with them once %s owns them: "+
		"its runs and commands fail until it is a member of a role. Grant one of these:",
		spoken.List(losing)+spoken.Noun(len(losing), " owns", " own"), schema, pg.Owner.In(schema))}
	for _, name := range losing {
		to := " to " + pq.QuoteIdentifier(name) + ";  -- "
		lines = append(lines,
			"    grant "+pg.Runner.In(schema)+to+"if it runs slots: cron, a CronJob, a daemon",
			"    grant "+pg.Operator.In(schema)+to+"if it also pauses, retries and applies rules",
			"    grant "+pg.Owner.In(schema)+to+"if it migrates; it then keeps all that it has")
	}
	return strings.Join(lines, "\n")
}
