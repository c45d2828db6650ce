// Package alert tells a person of findings: once when a finding appears, again while it stays, and when it is over.
//
// The state is in table alert, so any number of runs and daemons tell once. Each message is an event in the outbox, in
// the transaction that records that it was told.
package alert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config says whom to tell. DB, Receiver, Repeat and Logger must be set.
type Config struct {
	DB     pgsql.Pool
	Schema pgsql.Schema
	// Receiver is the name of the receiver that is told.
	Receiver string
	// Repeat is how long after a message a finding that stays is told again.
	Repeat time.Duration
	// Of names the store, for messages. Empty: there is one.
	Of string
	// Self is how to call the binary, for remedies.
	Self string
	// Knows reports whether the caller has registered a job; see health.Check.
	Knows func(job string) bool
	// Every is the shortest time between two looks, over all processes. 0: each call looks.
	Every time.Duration
	// Logger is told of a look that tells nothing because of another one.
	Logger *slog.Logger
}

// Known is a finding that was told, or is silenced.
type Known struct {
	// Finding is its name, see health.Finding.Name.
	Finding string
	Text    string
	// Since is when the finding appeared. Zero: it is silenced, and has not appeared.
	Since time.Time
	// ToldAt is when it was last told. Zero: never.
	ToldAt time.Time
	// SilencedUntil is until when no message tells it. Zero: it is not silenced.
	SilencedUntil time.Time
	// By and Because say who has silenced it and why.
	By, Because string
	// Stays reports that only rows that gave up before the last day keep it, or that no message tells of newer ones yet.
	Stays bool
}

// Tell looks at the state, and writes messages about what has changed since the last look. It does nothing if another
// process has just looked.
func Tell(ctx context.Context, c Config) error {
	before, first, err := c.claim(ctx)
	if err != nil || !first {
		return err
	}
	l, err := ledger.New(ctx, c.DB, c.Schema.String(), nil)
	if err != nil {
		return err
	}
	var report health.Report
	err = pg.SnapshotTx(ctx, c.DB, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, pg.SlotIndexOnly.In(c.Schema)); err != nil {
			return err
		}
		report, err = health.Check(ctx, l.In(reserved.Caller{}, tx), time.Time{}, health.Thresholds{}, c.Knows)
		return err
	})
	if err != nil {
		return err
	}
	err = pgsql.InTx(ctx, pg.Sqlx(c.DB), func(tx *sqlx.Tx) error { return c.tell(ctx, tx, before, report.Findings) })
	if err != nil {
		return fmt.Errorf("tell findings: %w", pg.ExplainMissing(err))
	}
	return nil
}

// claim reports whether this look is the first one for Config.Every, and how many looks have told before it.
func (c Config) claim(ctx context.Context) (before int64, first bool, err error) {
	err = pgsql.InTx(ctx, pg.Sqlx(c.DB), func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pg.AlertClaim.In(c.Schema), c.Every.Seconds()).Scan(&before)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("claim the look at findings: %w", pg.ExplainMissing(err))
	}
	return before, true, nil
}

// tell writes the messages, unless another look has told since this one began. A look that has told nothing may take
// long or have broken off, so none gives way to it.
func (c Config) tell(ctx context.Context, tx *sqlx.Tx, before int64, findings []health.Finding) error {
	var now time.Time
	err := tx.QueryRowContext(ctx, pg.AlertHold.In(c.Schema), before).Scan(&now)
	if errors.Is(err, sql.ErrNoRows) {
		c.Logger.InfoContext(ctx, "this look at findings tells nothing, because another process has told since it began")
		return nil
	}
	if err != nil {
		return err
	}
	known, err := Read(ctx, tx, c.Schema)
	if err != nil {
		return err
	}
	stay, err := c.stillGivenUp(ctx, tx, known, findings)
	if err != nil {
		return err
	}
	d := decide(known, c.merge(findings), c.merge(stay), now, c.Repeat)
	if err := d.write(ctx, tx, c.Schema); err != nil {
		return err
	}
	if len(d.messages) == 0 {
		return nil
	}
	var subjects []string
	for _, m := range d.messages {
		subjects = append(subjects, subject(m.Known), subjectAnew(m.Known))
	}
	held, _, err := refused(ctx, tx, c.Schema, c.Receiver, subjects)
	if err != nil {
		return err
	}
	events := make([]event.Event, len(d.messages))
	for i, m := range d.messages {
		events[i] = c.event(m, now)
		if m.anew && slices.Contains(held, subject(m.Known)) || m.over && slices.Contains(held, subjectAnew(m.Known)) {
			events[i].Subject = subjectAnew(m.Known)
		}
	}
	return outbox.New(c.DB, c.Schema).PublishTx(ctx, tx, events)
}

// stillGivenUp returns a finding for each job whose rows gave up, as a look has found, and are no finding of status any
// more because of their age alone. It is over once they are retried, acknowledged or pruned.
func (c Config) stillGivenUp(
	ctx context.Context, tx *sqlx.Tx, known []Known, findings []health.Finding,
) (stay []health.Finding, err error) {
	for _, k := range known {
		job, is := strings.CutPrefix(k.Finding, "gave-up/")
		found := func(f health.Finding) bool { return f.Name() == k.Finding }
		if !is || k.Since.IsZero() || slices.ContainsFunc(findings, found) {
			continue
		}
		left := false
		err := tx.QueryRowContext(ctx, pg.AlertGaveUp.In(c.Schema), job, k.Since.Add(-health.Span)).Scan(&left)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if word := spoken.Word(job); left {
			stay = append(stay, health.Finding{
				Condition: "gave-up", Job: job, Remedy: "jobs history --outcome failed --job " + word,
				Text: fmt.Sprintf("rows of %s that were given up are neither retried nor acknowledged. "+
					"Mend the cause first; jobs retry --job %s then puts the rows back. "+
					"If you will not retry them, acknowledge them with alerts ack --job %s --because WHY --yes", job, word, word),
			})
		}
	}
	return stay, nil
}

// List returns the findings that were told or are silenced, by name.
func List(ctx context.Context, db pgsql.Pool, schema pgsql.Schema) (list []Known, err error) {
	err = pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		list, err = Read(ctx, tx, schema)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the alerts: %w", pg.ExplainMissing(err))
	}
	return list, nil
}

// Told returns the findings that were told, and whose messages the receiver has not refused: a person knows of them.
// While the receiver is down, it returns none. It leaves out those that only stay: a person knows of no new failure.
func Told(ctx context.Context, db pgsql.Pool, schema pgsql.Schema, receiver string) (list []Known, err error) {
	err = pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		list, err = Read(ctx, tx, schema)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(k Known) bool { return k.ToldAt.IsZero() || k.Stays })
		subjects := append(seq.Map(list, subject), seq.Map(list, subjectAnew)...)
		held, down, err := refused(ctx, tx, schema, receiver, subjects)
		list = slices.DeleteFunc(list, func(k Known) bool {
			return down || slices.Contains(held, subject(k)) || slices.Contains(held, subjectAnew(k))
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read which findings were told: %w", pg.ExplainMissing(err))
	}
	return list, nil
}

// refused returns those of the subjects of which a receiver has refused messages, and whether it is down.
func refused(
	ctx context.Context, tx pg.Querier, schema pgsql.Schema, receiver string, subjects []string,
) (held []string, down bool, err error) {
	args := []any{message.Consumer(receiver), pq.StringArray(subjects)}
	_, err = pg.Collect(ctx, tx, pg.AlertRefused.In(schema), args, func(row *sql.Rows, _ *struct{}) error {
		var subject sql.NullString
		err := row.Scan(&subject)
		if down = down || !subject.Valid; subject.Valid {
			held = append(held, subject.String)
		}
		return err
	})
	return held, down, err
}

// Read is List in a transaction.
func Read(ctx context.Context, tx pg.Querier, schema pgsql.Schema) ([]Known, error) {
	return pg.Collect(ctx, tx, pg.AlertRead.In(schema), nil, func(row *sql.Rows, k *Known) error {
		return row.Scan(&k.Finding, &k.Text, pg.UTC(&k.Since), pg.UTC(&k.ToldAt), pg.UTC(&k.SilencedUntil), &k.By,
			&k.Because, &k.Stays)
	})
}

// merge returns the texts of findings by name. Findings of one name are one message.
func (c Config) merge(findings []health.Finding) map[string]string {
	texts := map[string]string{}
	for _, f := range findings {
		text := f.Text
		if f.Remedy != "" {
			text += fmt.Sprintf("\nsee to it with: %s %s", c.Self, f.Remedy)
		}
		if before := texts[f.Name()]; before != "" {
			text = before + "\n" + text
		}
		texts[f.Name()] = text
	}
	return texts
}

// told is a message about a finding.
type told struct {
	Known
	over, again bool
	anew        bool // the finding only stayed, and was found again
	quiet       bool // only a service that keeps an incident gets it
}

// decision has the messages and the rows to write.
type decision struct {
	messages []told
	keep     []Known
	drop     []string // findings
}

// decide compares what is known with what was found, and with what stays, the texts by name. A finding that only stayed
// is told at once when it is found again, as the same problem.
func decide(known []Known, found, stay map[string]string, now time.Time, repeat time.Duration) (d decision) {
	names := map[string]bool{}
	for _, k := range known {
		names[k.Finding] = true
		silent := k.SilencedUntil.After(now)
		text, is := found[k.Finding]
		old, stays := stay[k.Finding]
		switch {
		case is || stays:
			anew := !k.ToldAt.IsZero() && k.Stays && !stays
			again := !k.ToldAt.IsZero() && !anew
			if k.Text = cmp.Or(text, old); k.Since.IsZero() {
				k.Since = now
			}
			k.Stays = k.Stays || stays
			back := k.ToldAt.After(now) // the clock was set back
			if !silent && (!again || back || now.Sub(k.ToldAt) >= repeat) {
				k.ToldAt, k.Stays = now, stays
				d.messages = append(d.messages, told{Known: k, again: again, anew: anew})
			}
			d.keep = append(d.keep, k)
			continue
		case !k.ToldAt.IsZero():
			d.messages = append(d.messages, told{Known: k, over: true, quiet: silent})
		}
		if silent {
			k.Since, k.ToldAt, k.Stays = time.Time{}, time.Time{}, false
			d.keep = append(d.keep, k)
		} else {
			d.drop = append(d.drop, k.Finding)
		}
	}
	for name, text := range found {
		if !names[name] {
			k := Known{Finding: name, Text: text, Since: now, ToldAt: now}
			d.keep, d.messages = append(d.keep, k), append(d.messages, told{Known: k})
		}
	}
	slices.SortFunc(d.messages, func(a, b told) int { return strings.Compare(a.Finding, b.Finding) })
	return d
}

func (d decision) write(ctx context.Context, tx *sqlx.Tx, schema pgsql.Schema) error {
	var names, texts, since, told pq.StringArray
	var stays pq.BoolArray
	for _, k := range d.keep {
		names, texts = append(names, k.Finding), append(texts, k.Text)
		since, told = append(since, timestamp(k.Since)), append(told, timestamp(k.ToldAt))
		stays = append(stays, k.Stays)
	}
	if _, err := tx.ExecContext(ctx, pg.AlertWrite.In(schema), names, texts, since, told, stays); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, pg.AlertDrop.In(schema), pq.StringArray(d.drop))
	return err
}

// timestamp returns an instant as the database reads it, or "" for the zero time.
func timestamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return string(pq.FormatTimestamp(at))
}

// event returns the event of a message.
func (c Config) event(m told, now time.Time) event.Event {
	name := m.Finding
	if c.Of != "" {
		name = c.Of + ": " + name
	}
	text := fmt.Sprintf("%s: %s", name, m.Text)
	switch {
	case m.over:
		first, _, _ := strings.Cut(m.Text, "\n")
		text = fmt.Sprintf("over: %s, told since %s\nIt was: %s", name, spoken.Instant(m.Since), first)
	case m.again:
		text = fmt.Sprintf("still: %s, since %s: %s", name, spoken.Instant(m.Since), m.Text)
	}
	data, _ := json.Marshal(struct { // never fails
		Finding string    `json:"finding"`
		Since   time.Time `json:"since"`
		message.Message
	}{m.Finding, m.Since, message.Message{
		Text: text, About: c.id(m, "problem"), Over: m.over, Quiet: m.quiet,
	}})
	return event.Event{
		ID: c.id(m, now.Format(time.RFC3339Nano)), Type: message.Type(c.Receiver), Subject: subject(m.Known), Time: now,
		PublishedAt: now, Data: data,
	}
}

// id returns the same text for the same finding and the same what.
func (c Config) id(m told, what string) string {
	hash := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q", c.Of, m.Finding, m.Since.UnixMicro(), what))
	return hex.EncodeToString(hash[:16])
}

// subject returns the subject of the messages about a finding since it has appeared. A finding that comes again has
// another one, because a message that became a dead letter holds back the later ones of its subject. The name of a job
// may have control characters, which no subject may have.
func subject(k Known) string { return subjectOf(k, k.Since) }

// subjectAnew returns the subject of a message about rows that gave up after those of an earlier message, if that was
// refused: it must not hold back the later one. If the later one is refused, too, the end has its subject, and waits
// for it.
func subjectAnew(k Known) string { return subjectOf(k, k.ToldAt) }

func subjectOf(k Known, at time.Time) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f {
			return '?'
		}
		return r
	}, k.Finding)
	return "finding/" + name + "/" + at.UTC().Format(time.RFC3339Nano)
}

// Silence tells no message about a finding until an instant from now.
func Silence(
	ctx context.Context, tx *sqlx.Tx, schema pgsql.Schema, finding string, span time.Duration, because string,
) error {
	_, err := tx.ExecContext(ctx, pg.AlertSilence.In(schema), finding, span.Seconds(), because)
	if err != nil {
		return fmt.Errorf("silence %s: %w", finding, pg.ExplainMissing(err))
	}
	return nil
}
