package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

// engine finds a server of an engine that is known to break the promises.
func engine(ctx context.Context, c Config) ([]Finding, error) {
	err := pgsql.RefuseEngine(reserved.Caller{}, ctx, c.DB)
	if refused, ok := errors.AsType[*pgsql.EngineError](err); ok {
		return []Finding{ToDo("engine", refused.What(), refused.Remedy())}, nil
	}
	return nil, err
}

func standby(ctx context.Context, tx *sqlx.Tx, c Config) ([]Finding, error) {
	recovers, err := get[bool](ctx, tx, c, pg.DoctorStandby)
	if err != nil || !recovers {
		return nil, err
	}
	return []Finding{action("the server is a hot standby, which can be read and not written",
		"point database.url at the primary")}, nil
}

// clock reads the database's clock between two readings of this machine's.
func clock(ctx context.Context, tx *sqlx.Tx, c Config) ([]Finding, error) {
	before := time.Now() //nolint:forbidigo // this machine's clock is compared
	there, err := get[time.Time](ctx, tx, c, pg.DoctorClock)
	after := time.Now() //nolint:forbidigo // as above
	if err != nil {
		return nil, err
	}
	return offset(there.Sub(before), there.Sub(after), c.Early), nil
}

// offset judges how far the database is ahead of this machine, given the bounds of it. If the
// machine's clock is ahead of the database's by more than early, a run takes the slot before.
func offset(most, least, early time.Duration) []Finding {
	ahead := max(least, 0) + min(most, 0) // 0: it may be none
	if ahead.Abs() < time.Second {
		return nil
	}
	found := note(fmt.Sprintf("the clock of this machine is %s the database's by %s",
		map[bool]string{true: "behind", false: "ahead of"}[ahead > 0],
		duration.Format(ahead.Abs().Round(time.Millisecond))), "timedatectl set-ntp true")
	if -ahead > early {
		found.Severity = Action
		found.What += ", more than run.start_tolerance: cron starts runs that find their slot has not begun"
	}
	return []Finding{found}
}

func connections(ctx context.Context, tx *sqlx.Tx, c Config) ([]Finding, error) {
	limit, err := get[struct {
		Name string
		Room int64
	}](ctx, tx, c, pg.DoctorRoom)
	need := int64(c.Connections)
	if err != nil || limit.Room+1 >= need { // this one is counted
		return nil, err
	}
	return []Finding{action(
		fmt.Sprintf("%s has room for %s, and a run takes up to %d (run.connections + 5)", limit.Name,
			spoken.Count(max(limit.Room+1, 0), "more connection", "more connections"), need),
		"lower run.connections, raise the limit, or put a pooler in between")}, nil
}

func settings(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	is, err := get[struct {
		WalCompression  string `db:"wal_compression"`
		Autovacuum      bool
		Isolation, Name string
	}](ctx, tx, c, pg.DoctorSettings)
	if err != nil {
		return nil, err
	}
	if is.WalCompression == "off" {
		found = append(found, note("wal_compression is off: with it a run writes about half as much",
			"alter system set wal_compression = lz4; select pg_reload_conf()  -- or on, if the server has no lz4"))
	}
	if !is.Autovacuum {
		found = append(found, action("autovacuum is off: each slot leaves as many dead rows as it has had rows",
			"alter system set autovacuum = on; select pg_reload_conf()"))
	}
	if is.Isolation != "read committed" {
		found = append(found,
			action("transactions begin at "+is.Isolation+", so concurrent checks and enqueues of applications fail: "+
				"could not serialize access",
				"alter role %s set default_transaction_isolation = 'read committed'", pq.QuoteIdentifier(is.Name)))
	}
	return found, nil
}

// collations finds text indexes that may be out of order, because the system sorts texts in another way
// since its upgrade.
func collations(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	all, err := list[struct{ Name, Was, Version, Mends string }](ctx, tx, c, pg.DoctorCollation)
	for _, is := range all {
		found = append(found, action(fmt.Sprintf(
			"the collation of %s had version %s, and the system has %s since its upgrade: "+
				"indexes of texts may miss rows, also for rules and queries of sql_jobs; keys of prescient compare by their bytes",
			is.Name, is.Was, is.Version), "%s", is.Mends))
	}
	return found, err
}

func sessions(ctx context.Context, tx *sqlx.Tx, c Config) ([]Finding, error) {
	sees, err := get[bool](ctx, tx, c, pg.DoctorSessions)
	if err != nil || sees {
		return nil, err
	}
	return []Finding{note("this role does not see what other roles' sessions do, so it cannot find their old transactions",
		"grant pg_read_all_stats to it, or run doctor as another")}, nil
}

func holders(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	all, err := list[struct {
		What, Mends string
		Since       *time.Time
	}](ctx, tx, c, pg.DoctorHolders, c.Old.Microseconds())
	for _, h := range all {
		what := h.What + " holds back vacuum and the readers of the outbox"
		if h.Since != nil {
			what += " since " + spoken.Instant(*h.Since)
		}
		found = append(found, action(what, "%s", h.Mends))
	}
	return found, err
}
