package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
)

// ops is the receiver of the story, a file.
const ops = "ops"

// tellOps writes the message of an alert into the outbox, in the transaction of the check.
func (s shop) tellOps(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob, alert string, placed time.Time) error {
	data, err := json.Marshal(message.Message{
		Text: fmt.Sprintf("%s alert: order %s, placed %s, is not shipped", alert, job.EntityKey, day(placed)),
	})
	if err != nil {
		return err
	}
	return outbox.New(nil, pgsql.Schema(s.schema)).PublishTx(ctx, tx, []event.Event{{
		ID: alert + "-" + job.EntityKey, Type: message.Type(ops), Subject: "orders/" + job.EntityKey, Time: job.Slot,
		Data: data,
	}})
}

// deliverTime bounds the wait for messages that another transaction on the server holds back.
const deliverTime = time.Minute

// deliver sends the messages to a file, and returns its lines.
func (t *teller) deliver(ctx context.Context) (lines []string, err error) {
	dir, err := os.MkdirTemp("", "prescient")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "alerts.txt")
	to, err := receiver.Open("file://"+path, receiver.Config{})
	if err != nil {
		return nil, err
	}
	cfg := forward.Config{
		DB: t.db, Schema: pgsql.Schema(t.Schema), Logger: slog.New(slog.DiscardHandler),
		Destinations: []forward.Destination{{
			Name: message.Consumer(ops), Address: "file:", Types: []string{message.Type(ops)},
			Publisher: receiver.NewPublisher(receiver.PublisherConfig{Receiver: to, PerMinute: 1_000_000}),
		}},
	}
	ctx, cancel := context.WithTimeout(ctx, deliverTime)
	defer cancel()
	for sent := int64(0); sent < int64(t.told); {
		f, err := forward.Start(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("send the messages: %w", err)
		}
		now := f.Finish()[0]
		if sent += now.Sent; now.Err != nil {
			return nil, fmt.Errorf("send the messages: %w", now.Err)
		}
	}
	text, err := os.ReadFile(path)
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

// nameOps makes the outbox keep the messages for the receiver.
func (t *teller) nameOps(ctx context.Context) error {
	return forward.Name(ctx, forward.Config{DB: t.db, Schema: pgsql.Schema(t.Schema), Destinations: []forward.Destination{
		{Name: message.Consumer(ops), Address: "file:", Types: []string{message.Type(ops)}},
	}})
}

// messages prints the last of the messages that the receiver has got.
func (t *teller) messages(ctx context.Context) error {
	lines, err := t.deliver(ctx)
	if err != nil {
		return err
	}
	t.facts.Messages = len(lines)
	t.word("receiver", "where a person reads: Slack, mail, a phone; here a file")
	t.printf("  It got %d messages, one for each alert. The last two:\n", len(lines))
	for _, line := range lines[max(0, len(lines)-2):] {
		t.printf("    %s\n", line)
	}
	return nil
}
