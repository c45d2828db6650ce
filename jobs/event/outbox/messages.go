package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Told is a message to people, and what became of it.
type Told struct {
	Receiver string
	// State is one of the constants.
	State string
	// At is when the message was sent, is sent, was written, was refused or became a dead letter, in UTC.
	At time.Time
	// Error is the last error of the receiver. Empty if the receiver has had no error.
	Error string
	// Text is the message. Empty: it was sent.
	Text string
}

// The states of a message.
const (
	ToldSent    = "sent"
	ToldLater   = "later"   // it waits for its time
	ToldWaits   = "waits"   // in the outbox
	ToldRefused = "refused" // it is tried again
	ToldDead    = "dead"    // it is a dead letter
)

// Messages lists the newest messages about a subject, the oldest of them first, at most 100.
func (o *Outbox) Messages(_ reserved.Caller, ctx context.Context, subject string) (list []Told, err error) {
	err = pgsql.ReadTx(ctx, o.db, func(tx *sqlx.Tx) error {
		list, err = pg.Collect(ctx, tx, pg.EventMessages.In(o.schema), []any{subject},
			func(row *sql.Rows, t *Told) error {
				var consumer string
				var data []byte
				err := row.Scan(&consumer, &t.State, pg.UTC(&t.At), &t.Error, &data)
				var m message.Message
				_ = json.Unmarshal(data, &m) // what is no message has no text
				t.Receiver, t.Text = strings.TrimPrefix(consumer, message.ConsumerPrefix), m.Text
				return err
			})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the messages: %w", pg.ExplainMissing(err))
	}
	return list, nil
}
