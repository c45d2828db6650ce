package admin

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/payload"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// CancelFilter selects waiting checks to cancel together. Zero fields do not narrow. It selects
// anonymous checks, but never the checks of schedules, and those of a rule only if JobExec names it.
type CancelFilter struct {
	JobExec    string
	EntityName string
	EntityKey  string // * stands for any text
	GroupKey   string
	// Payload is a JSON object. It selects the checks whose payload has each of its fields, with the
	// same value. 42 and "42" are different values. A field that is an object or an array need only
	// be contained, as by the operator @> of PostgreSQL.
	Payload string
	// Until selects checks that were enqueued before, by the database's clock. A filter needs another
	// field, too. The instant of a preview leaves out checks that are enqueued after it.
	Until time.Time
}

// IsZero reports whether the filter selects no checks, because no field but Until is set.
func (f CancelFilter) IsZero() bool {
	f.Until = time.Time{}
	return f == CancelFilter{}
}

// maxPayload is the most bytes that the database stores as a payload.
const maxPayload = 1 << 20

// validate returns an error for a payload that is no object, has no field, or could not be stored.
func (f CancelFilter) validate() error {
	if f.Payload == "" {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(f.Payload), &fields); err != nil || len(fields) == 0 {
		return &jobs.FieldError{Field: "payload", Message: "must be a JSON object with at least one field"}
	}
	if problem := payload.Problem(json.RawMessage(f.Payload), maxPayload); problem != "" {
		return &jobs.FieldError{Field: "payload", Message: problem}
	}
	return nil
}

// PayloadFields returns the JSON object of fields that are given as NAME=VALUE, for
// CancelFilter.Payload. A value that is not JSON is a text. A single text may be the JSON object
// itself. Without fields it returns "".
func PayloadFields(fields ...string) (string, error) {
	if len(fields) == 0 {
		return "", nil
	}
	if text := strings.TrimSpace(fields[0]); len(fields) == 1 && strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		return text, nil
	}
	object := map[string]json.RawMessage{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if _, twice := object[name]; !ok || name == "" || twice {
			return "", fmt.Errorf("%q must be FIELD=VALUE, such as merchant=42, each field once, or a JSON object", f)
		}
		object[name] = json.RawMessage(value)
		if !json.Valid(object[name]) {
			object[name], _ = json.Marshal(value) // a text can be encoded
		}
	}
	text, err := json.Marshal(object)
	return string(text), err
}

// args returns the parameters of its statements.
func (f CancelFilter) args() []any {
	key := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%").Replace(f.EntityKey)
	return []any{
		nullable(f.JobExec), nullable(f.EntityName), nullable(key), nullable(f.GroupKey), nullable(f.Payload),
		sql.NullTime{Time: f.Until, Valid: !f.Until.IsZero()},
	}
}

// CancelCount says which checks a filter selects.
type CancelCount struct {
	Checks int64
	// Until is a CancelFilter.Until that leaves out the checks that are enqueued later. Zero: there are
	// no checks.
	Until time.Time
	// Digest tells these checks from as many others.
	Digest string
	// Stay are the checks of rules that the other fields select, and that stay because no job is named.
	Stay int64
}

// PreviewCancel counts the waiting checks that [Client.CancelMany] would end.
func (c *Client) PreviewCancel(ctx context.Context, db jobs.DB, f CancelFilter) (found CancelCount, err error) {
	if f.IsZero() {
		return found, errors.New("count the checks to cancel: the filter must name something")
	}
	if err := f.validate(); err != nil {
		return found, fmt.Errorf("count the checks to cancel: %w", err)
	}
	err = c.row(ctx, db, pg.CancelCount, f.args(), &found.Checks, pg.UTC(&found.Until), &found.Digest, &found.Stay)
	if err != nil {
		return CancelCount{}, fmt.Errorf("count the checks to cancel: %w", err)
	}
	if !found.Until.IsZero() {
		found.Until = found.Until.Add(time.Microsecond)
	}
	return found, nil
}

// vainTurns is how many turns in a row CancelMany may lock rows and cancel none of them. Then the cause
// is a trigger.
const vainTurns = 10

// CancelMany ends up to limit waiting checks behind a position as OutcomeCancelled, the first slots first.
// It returns their number, and the position from which the next call goes on. To cancel all of them,
// the caller repeats it, each time in a new transaction, until the position is zero. CancelMany skips
// a row that another transaction has locked, and does not find a row that is moved to before the
// position: PreviewCancel counts them, and another walk cancels them. Neither sees a row that is on its way
// from another store. A trigger on future_job that suppresses a cancellation is an error of PostgreSQL. It
// needs the rights of a runner.
func (c *Client) CancelMany(
	ctx context.Context, db jobs.DB, f CancelFilter, from Position, limit int,
) (n int64, next Position, err error) {
	if f.IsZero() || limit < 1 {
		return 0, from, errors.New("cancel many: the filter must name something, and the limit be at least 1")
	}
	if err := f.validate(); err != nil {
		return 0, from, fmt.Errorf("cancel many: %w", err)
	}
	err = tx.In(ctx, db, func(db tx.DB) error {
		for vain := 0; vain < vainTurns; {
			var cancelled, locked int64
			var slot sql.NullTime
			var job, id sql.NullInt64
			args := append(f.args(), int64(limit)-n, from.at, from.job, from.id)
			err := pg.One(ctx, db, pg.CancelMany.In(c.jobs.Schema()), args, &cancelled, &locked, &slot, &job, &id)
			if err != nil {
				return err
			}
			next = Position{}
			if n+locked == int64(limit) { // there may be more
				next = Position{slot.Time, job.Int64, id.Int64}
			}
			if n += cancelled; cancelled == locked {
				return nil
			}
			// A row that was moved meanwhile is locked now, and the next turn finds it.
			if vain++; cancelled > 0 {
				vain = 0
			}
		}
		_, err := db.ExecContext(ctx, pg.CancelSuppressed.In(c.jobs.Schema()))
		return err
	})
	if err != nil {
		return 0, from, fmt.Errorf("cancel many: %w", err)
	}
	return n, next, nil
}

// CancelOptions say how CancelAll works.
type CancelOptions struct {
	// Limit is how many checks it cancels at most, those of the first slots. Default: all.
	Limit int64
	// Actor is recorded with each transaction, see jobs.SetActor. Optional.
	Actor string
	// Told is called after each transaction with the number of cancelled checks so far. Optional.
	Told func(cancelled int64)
}

// Cancelled counts what CancelAll did.
type Cancelled struct {
	Cancelled int64 `json:"cancelled"`
	// Left is how many checks the filter still selects, because other transactions have locked or moved
	// them. It is 0 if the limit was reached.
	Left int64 `json:"left"`
}

const (
	// cancelledAtOnce is how many checks a transaction of CancelAll cancels.
	cancelledAtOnce = 1000
	// cancelWalks is how often CancelAll walks through the slots: the second time for rows that moved
	// meanwhile.
	cancelWalks = 2
)

// CancelAll ends the waiting checks that a filter selects as OutcomeCancelled, 1,000 in each transaction. A
// check that another transaction holds locked is left. After an error, the transactions before it stay.
// CancelAll needs the rights of a runner.
func (c *Client) CancelAll(
	ctx context.Context, db pgsql.Pool, f CancelFilter, o CancelOptions,
) (done Cancelled, err error) {
	o.Limit = cmp.Or(o.Limit, math.MaxInt64)
	for range cancelWalks {
		err = c.walk(ctx, db, f, o, &done.Cancelled)
		if done.Left = 0; err != nil || done.Cancelled == o.Limit {
			break
		}
		var left CancelCount
		if left, err = c.PreviewCancel(ctx, db, f); err != nil || left.Checks == 0 {
			break
		}
		done.Left = left.Checks
	}
	return done, err
}

// walk cancels checks on one walk through the slots, and adds their number to cancelled.
func (c *Client) walk(ctx context.Context, db pgsql.Pool, f CancelFilter, o CancelOptions, cancelled *int64) error {
	for from := (Position{}); ; {
		var n int64
		var next Position // apart from from, because the transaction may be repeated
		err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) (err error) {
			if o.Actor != "" {
				if err := jobs.SetActor(ctx, tx, o.Actor); err != nil {
					return err
				}
			}
			n, next, err = c.CancelMany(ctx, tx, f, from, int(min(cancelledAtOnce, o.Limit-*cancelled)))
			return err
		})
		if err != nil {
			return err
		}
		*cancelled += n
		if o.Told != nil {
			o.Told(*cancelled)
		}
		if from = next; from.IsZero() || *cancelled == o.Limit {
			return nil
		}
	}
}
