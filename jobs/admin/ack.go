package admin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Acked is an acknowledgement: a row failed for good, and no operator will retry it.
type Acked struct {
	At      time.Time `json:"at"`      // UTC
	By      string    `json:"by"`      // the actor, see jobs.SetActor; without one, the role
	Because string    `json:"because"` // the reason that the operator gave
}

// scanAcked reads the entry of an acknowledgement. Nil: there is none.
func scanAcked(entry string) (*Acked, error) {
	if entry == "" {
		return nil, nil
	}
	var e struct {
		At                 int64 // milliseconds since 1970
		By, Actor, Because string
	}
	if err := json.Unmarshal([]byte(entry), &e); err != nil {
		return nil, err
	}
	if e.Actor != "" {
		e.By = e.Actor
	}
	return &Acked{time.UnixMilli(e.At).UTC(), e.By, e.Because}, nil
}

// MaxBecause is the most characters of a reason.
const MaxBecause = 500

// ValidateBecause returns a jobs.FieldError if a reason is empty, too long, or no text.
func ValidateBecause(because string) error {
	message := ""
	switch {
	case strings.TrimSpace(because) == "":
		message = "must say why"
	case utf8.RuneCountInString(because) > MaxBecause:
		message = fmt.Sprintf("must have at most %d characters", MaxBecause)
	case !utf8.ValidString(because) || strings.ContainsRune(because, 0):
		message = "must be UTF-8 without the character NUL"
	default:
		return nil
	}
	return &jobs.FieldError{Field: "because", Message: message}
}

// AckFilter selects rows in history that were given up and are not acknowledged, also those of schedules. Zero fields
// do not narrow, but a filter needs a field, or All.
type AckFilter struct {
	ID         int64 // of the one row in history
	JobExec    string
	EntityName string
	EntityKey  string
	ItemKey    *string   // nil: every item; "": rows without an item
	Since      time.Time // failed at or after
	Until      time.Time // failed before; a filter needs another field, too
	All        bool      // all rows that the other fields select, perhaps every one
}

// IsZero reports whether the filter selects nothing, because no field but Until is set.
func (f AckFilter) IsZero() bool {
	f.Until = time.Time{}
	return f == AckFilter{}
}

// args returns the parameters of its statements.
func (f AckFilter) args() []any {
	since, until := span(f.Since, f.Until)
	return []any{
		nullable(f.JobExec), nullable(f.EntityName), nullable(f.EntityKey), since, until, f.ItemKey,
		sql.NullInt64{Int64: f.ID, Valid: f.ID != 0},
	}
}

// AckCount says which rows a filter selects.
type AckCount struct {
	Rows int64
	// Until is an AckFilter.Until that leaves out the rows that are given up later. Zero: there are no rows.
	Until time.Time
	// Digest tells these rows from as many others.
	Digest string
}

// PreviewAck counts the rows that [Client.Ack] would acknowledge.
func (c *Client) PreviewAck(ctx context.Context, db jobs.DB, f AckFilter) (found AckCount, err error) {
	if f.IsZero() {
		return found, errors.New("count the rows to acknowledge: the filter must name something, or be All")
	}
	if err := c.row(ctx, db, pg.HistoryUnacked, f.args(), &found.Rows, pg.UTC(&found.Until), &found.Digest); err != nil {
		return AckCount{}, fmt.Errorf("count the rows to acknowledge: %w", err)
	}
	if !found.Until.IsZero() {
		found.Until = found.Until.Add(time.Microsecond)
	}
	return found, nil
}

// Ack acknowledges up to limit rows that were given up, the oldest first, with the actor of the transaction and a
// reason, and returns their number. They stay in history. The finding gave-up counts them no more, and
// [Client.Retry] takes them only by their key or their number. Ack needs the rights of an operator.
func (c *Client) Ack(ctx context.Context, db jobs.DB, f AckFilter, because string, limit int) (n int64, err error) {
	n, _, err = c.ack(ctx, db, f, because, limit)
	return n, err
}

// ack is Ack, and also returns how many rows it has found. Others may have acknowledged or retried some of them since.
func (c *Client) ack(
	ctx context.Context, db jobs.DB, f AckFilter, because string, limit int,
) (n, found int64, err error) {
	if f.IsZero() || limit < 1 {
		return 0, 0, errors.New("acknowledge: the filter must name something or be All, and the limit be at least 1")
	}
	if err := ValidateBecause(because); err != nil {
		return 0, 0, fmt.Errorf("acknowledge: %w", err)
	}
	if err := c.row(ctx, db, pg.HistoryAck, append(f.args(), because, limit), &n, &found); err != nil {
		return 0, 0, fmt.Errorf("acknowledge: %w", err)
	}
	return n, found, nil
}

// ackedAtOnce is how many rows a transaction of AckAll acknowledges.
const ackedAtOnce = 10_000

// AckOptions say how AckAll acknowledges.
type AckOptions struct {
	// Because is the reason. See ValidateBecause.
	Because string
	// Actor is recorded with each transaction, see jobs.SetActor. Optional.
	Actor string
}

// AckAll acknowledges all rows that a filter selects, 10,000 in each transaction. After an error, the transactions
// before it stay.
func (c *Client) AckAll(ctx context.Context, db pgsql.Pool, f AckFilter, o AckOptions) (acked int64, err error) {
	for {
		var n, found int64
		err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) (err error) {
			if o.Actor != "" {
				if err := jobs.SetActor(ctx, tx, o.Actor); err != nil {
					return err
				}
			}
			n, found, err = c.ack(ctx, tx, f, o.Because, ackedAtOnce)
			return err
		})
		if err != nil {
			return acked, err
		}
		if acked += n; found < ackedAtOnce {
			return acked, nil
		}
	}
}
