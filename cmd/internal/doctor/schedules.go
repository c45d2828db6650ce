package doctor

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
)

// asRole is a schedule whose statement runs as a role that the login may not take.
type asRole struct {
	ID, Role, Login string
	Made            bool // the role exists
}

// schedules finds statements of schedules that fail because the login may not take their role. Another login than that
// of the runs finds a role that was dropped.
func schedules(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	may, err := c.may(ctx, tx)
	if err != nil {
		return nil, err
	}
	var list []asRole
	if err := tx.SelectContext(ctx, &list, pg.DoctorSchedules.In(c.Schema)); err != nil {
		return nil, err
	}
	for _, s := range list {
		role, login := pq.QuoteIdentifier(s.Role), pq.QuoteIdentifier(s.Login)
		switch {
		case !s.Made:
			found = append(found, action(fmt.Sprintf("schedule %s: there is no role %s, as which its statement runs: it fails",
				s.ID, role), "create role %s; grant %[1]s to the login of the runs", role))
		case may.Runs:
			found = append(found, action(fmt.Sprintf("schedule %s: login %s may not take role %s, as which its statement runs: "+
				"it fails", s.ID, login, role),
				"grant %s to %s  -- or, if another login runs the slots, run doctor as that login", role, login))
		}
	}
	return found, nil
}
