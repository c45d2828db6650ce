package deadletter

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/internal/stored"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config says when to give up on an event. DB must be set.
type Config struct {
	// DB and Schema are the store of the jobs, which has the list. Schema defaults to "prescient".
	DB     pgsql.Pool
	Schema pgsql.Schema
	// MaxRefusals is the number of failed attempts after which an event is a dead letter. 0: no
	// limit.
	MaxRefusals int
	// MaxAge is the time since the first refusal after which a further refusal makes an event a
	// dead letter. 0: no limit.
	MaxAge time.Duration
	// Continue sends later events of the subject of a dead letter. Default: they are held back, in
	// the list, so that the order within a subject is kept.
	Continue bool
	// Logger gets a warning for each dead letter. Default: slog.Default().
	Logger *slog.Logger
}

// New returns a publisher that gives up on events of p by the limits of cfg. Without a limit, and for
// an event.TxPublisher, which refuses no single event, it returns p.
func New(p event.Publisher, cfg Config) event.Publisher {
	if _, ok := p.(event.TxPublisher); ok || cfg.MaxRefusals == 0 && cfg.MaxAge == 0 {
		return p
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &publisher{p, cfg, pgsql.Sqlx(cfg.DB)}
}

type publisher struct {
	event.Publisher
	cfg Config
	db  *sqlx.DB
}

// key identifies an event.
type key struct{ source, id string }

func keyOf(e event.Event) key { return key{e.Source, e.ID} }

// Publish returns nil for an event that is a dead letter, or has become one.
func (p *publisher) Publish(ctx context.Context, events []event.Event) error {
	errs := make([]error, len(events))
	rest := make([]int, len(events)) // not decided yet
	for i := range rest {
		rest[i] = i
	}
	for len(rest) > 0 { // in each turn at least one event is decided
		known, err := p.known(ctx, pick(events, rest))
		if err != nil {
			return fmt.Errorf("find dead letters: %w", err)
		}
		send, err := p.admit(ctx, events, rest, known)
		if err != nil {
			return fmt.Errorf("hold back events of a dead letter: %w", err)
		}
		for _, i := range rest {
			errs[i] = nil // unless it is sent, and fails
		}
		if len(send) == 0 {
			break
		}
		err = p.Publisher.Publish(ctx, pick(events, send))
		if _, partial := errors.AsType[*event.PartialError](err); err != nil && !partial && len(send) == len(events) {
			return err
		} else if err != nil && !partial {
			for _, i := range send {
				errs[i] = err
			}
			break
		}
		if rest, err = p.record(ctx, events, send, event.Errors(err, len(send)), known, errs); err != nil {
			return fmt.Errorf("record refused events: %w", err)
		}
	}
	return event.Partial(errs)
}

func pick(events []event.Event, indices []int) []event.Event {
	list := make([]event.Event, len(indices))
	for n, i := range indices {
		list[n] = events[i]
	}
	return list
}

// known returns the events that were refused before, and whether they are dead letters.
func (p *publisher) known(ctx context.Context, events []event.Event) (map[key]bool, error) {
	known := map[key]bool{}
	c := stored.Columns(events)
	err := pgsql.ReadTx(ctx, p.db, func(tx *sqlx.Tx) error {
		clear(known)
		_, err := pgsql.Collect(ctx, tx, pgsql.EventDeadKnown.In(p.cfg.Schema), []any{c[1], c[0]},
			func(row *sql.Rows, k *key) error {
				var dead bool
				err := row.Scan(&k.source, &k.id, &dead)
				known[*k] = dead
				return err
			})
		return err
	})
	return known, err
}

// admit returns which events of rest are to be sent. It leaves out dead letters, and holds back those
// behind a dead letter of their subject.
func (p *publisher) admit(
	ctx context.Context, events []event.Event, rest []int, known map[key]bool,
) (send []int, err error) {
	var live []int
	for _, i := range rest {
		if !known[keyOf(events[i])] {
			live = append(live, i)
		}
	}
	if p.cfg.Continue || len(live) == 0 {
		return live, nil
	}
	held, err := p.hold(ctx, pick(events, live))
	for n, i := range live {
		if !held[n] {
			send = append(send, i)
		}
	}
	return send, err
}

// hold writes the events whose subject has a dead letter behind it, and returns which these are.
func (p *publisher) hold(ctx context.Context, events []event.Event) (held []bool, err error) {
	err = pgsql.InTx(ctx, p.db, func(tx *sqlx.Tx) error {
		held = make([]bool, len(events))
		blocked, err := p.blocked(ctx, tx, events)
		if err != nil || len(blocked) == 0 {
			return err
		}
		var behind []event.Event
		for i, e := range events {
			if held[i] = e.Subject != "" && blocked[e.Subject]; held[i] {
				behind = append(behind, e)
			}
		}
		_, err = tx.ExecContext(ctx, pgsql.EventDeadHold.In(p.cfg.Schema), stored.Columns(behind)...)
		return err
	})
	return held, err
}

// blocked returns the subjects with a dead letter, and locks one of each.
func (p *publisher) blocked(ctx context.Context, tx *sqlx.Tx, events []event.Event) (map[string]bool, error) {
	var subjects pq.StringArray
	for _, chain := range event.BySubject(events) {
		if s := events[chain[0]].Subject; s != "" {
			subjects = append(subjects, s)
		}
	}
	for {
		blocked, sure := map[string]bool{}, true
		_, err := pgsql.Collect(ctx, tx, pgsql.EventDeadSubjects.In(p.cfg.Schema), []any{subjects},
			func(row *sql.Rows, subject *string) error {
				var locked bool
				err := row.Scan(subject, &locked)
				blocked[*subject], sure = true, sure && locked
				return err
			})
		if err != nil || sure {
			return blocked, err
		}
	}
}

// record records what became of the events that were sent, and sets their errors. It returns those
// that were blocked by an event that is a dead letter now.
func (p *publisher) record(
	ctx context.Context, events []event.Event, sent []int, results []error, known map[key]bool, errs []error,
) (again []int, err error) {
	var accepted, refused []event.Event
	var texts pq.StringArray
	for n, i := range sent {
		errs[i] = results[n]
		_, before := known[keyOf(events[i])]
		switch {
		case results[n] == nil && before:
			accepted = append(accepted, events[i])
		case results[n] != nil && !errors.Is(results[n], event.ErrNotSent) && ctx.Err() == nil:
			refused = append(refused, events[i])
			texts = append(texts, plain.ErrorText(results[n]))
		}
	}
	if len(accepted)+len(refused) == 0 {
		return nil, nil
	}
	dead := map[key]bool{}
	err = pgsql.InTx(ctx, p.db, func(tx *sqlx.Tx) error {
		clear(dead)
		if err := p.accept(ctx, tx, accepted); err != nil {
			return err
		}
		return p.refuse(ctx, tx, refused, texts, dead)
	})
	if err != nil {
		return nil, err
	}
	over := map[string]bool{} // subjects
	for n, i := range sent {
		e := events[i]
		if dead[keyOf(e)] {
			p.cfg.Logger.WarnContext(ctx, "event is a dead letter", "id", e.ID, "subject", e.Subject, "error", results[n])
			errs[i], over[e.Subject] = nil, true
		}
		if e.Subject != "" && over[e.Subject] && errors.Is(results[n], event.ErrBlocked) {
			again = append(again, i)
		}
	}
	return again, nil
}

func (p *publisher) accept(ctx context.Context, tx *sqlx.Tx, events []event.Event) error {
	if len(events) == 0 {
		return nil
	}
	c := stored.Columns(events)
	_, err := tx.ExecContext(ctx, pgsql.EventDeadAccept.In(p.cfg.Schema), c[1], c[0])
	return err
}

func (p *publisher) refuse(
	ctx context.Context, tx *sqlx.Tx, events []event.Event, texts pq.StringArray, dead map[key]bool,
) error {
	if len(events) == 0 {
		return nil
	}
	most := sql.NullInt64{Int64: int64(p.cfg.MaxRefusals), Valid: p.cfg.MaxRefusals > 0}
	age := sql.NullFloat64{Float64: p.cfg.MaxAge.Seconds(), Valid: p.cfg.MaxAge > 0}
	_, err := pgsql.Collect(ctx, tx, pgsql.EventDeadRefuse.In(p.cfg.Schema),
		append(stored.Columns(events), texts, most, age), func(row *sql.Rows, k *key) error {
			err := row.Scan(&k.source, &k.id)
			dead[*k] = true
			return err
		})
	return err
}
