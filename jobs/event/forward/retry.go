package forward

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// retryPage and mostBytes bound the refused events that are tried at once, beside the messages that are due together
// for one recipient.
const retryPage = 200

// tryNow ends the pauses of the refused events of a destination, if Config.RetryNow is set.
func tryNow(ctx context.Context, cfg Config, destination string) error {
	if !cfg.RetryNow {
		return nil
	}
	err := pgsql.InTx(ctx, pg.Sqlx(cfg.DB), func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, pg.EventDeadNow.In(cfg.Schema), destination)
		return err
	})
	if err != nil {
		return fmt.Errorf("end the pauses of destination %q: %w", destination, pg.ExplainMissing(err))
	}
	return nil
}

// try is a try of refused events that says nothing of each: the destination is down, or has no answer for one of them.
type try struct {
	letters []deadletter.Letter
	err     error
}

// retry tries refused events again whose pause is over, with those behind them. It reports whether more may follow at
// once. It records nothing of a try without an answer, and returns it. It returns a try with one answer to all events,
// too, unless some of them had been refused before.
func (s *sender) retry(ctx context.Context) (more bool, unanswered *try, err error) {
	var letters []deadletter.Letter
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		letters, err = pg.Collect(ctx, tx, pg.EventDeadDue.In(s.cfg.Schema),
			[]any{s.to.Name, retryPage, s.cfg.Continue, mostBytes}, deadletter.Scan)
		return err
	})
	if err != nil {
		return false, nil, fmt.Errorf("read the refused events of destination %q: %w", s.to.Name, err)
	}
	if len(letters) == 0 {
		return false, nil, nil
	}
	events := make([]event.Event, len(letters))
	for i, l := range letters {
		events[i] = l.Event
	}
	if errs := invalid(events); errs != nil { // the others are tried without these
		_, err = s.settleRetry(ctx, letters, errs)
		return true, nil, err
	}
	err = s.to.Publisher.Publish(ctx, events)
	results := event.Errors(err, len(events))
	isThrottled := func(err error) bool { return errors.Is(err, event.ErrThrottled) }
	s.throttled = s.throttled || slices.ContainsFunc(results, isThrottled)
	if down := noAnswer(results); down != nil {
		return false, &try{letters, down}, nil
	}
	if _, each := errors.AsType[*event.PartialError](err); err != nil && !each {
		t := &try{letters, err}
		if !t.refusedBefore() {
			return false, t, nil
		}
		return true, nil, s.refuse(ctx, t)
	}
	more, err = s.settleRetry(ctx, letters, results)
	return more, nil, err
}

// invalid returns why events can be no CloudEvents, because SQL has written them, and event.ErrNotSent for each of the
// others. A destination could not encode them, and would seem to be down. Nil: all can be.
func invalid(events []event.Event) []error {
	errs := make([]error, len(events))
	for i, e := range events {
		errs[i] = cmp.Or(e.Validate(), event.ErrNotSent)
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, event.ErrNotSent) }) {
		return nil
	}
	return errs
}

// refusedBefore reports whether the destination had refused some of the events before.
func (t *try) refusedBefore() bool {
	return slices.ContainsFunc(t.letters, func(l deadletter.Letter) bool { return l.Refusals > 0 })
}

// noAnswer returns the error of a call to which a destination has given no answer. Nil: it has, or nothing was sent.
func noAnswer(results []error) (down error) {
	for _, err := range results {
		_, answer := errors.AsType[*egress.StatusError](err)
		switch {
		case err == nil || answer || errors.Is(err, event.ErrRefused):
			return nil
		case down == nil && !errors.Is(err, event.ErrNotSent):
			down = err
		}
	}
	return down
}

// isDown records that a destination is down, and returns the error.
func (s *sender) isDown(ctx context.Context, err error) error {
	return errors.Join(err, s.record(ctx, s.at, err, nil))
}

// refuse counts a try as refusals, because the destination has answered or taken other events, or the try has taken all
// the time. Events that had not been refused before are tried again without those that had. If none had, the first of
// them is refused: it was tried first.
func (s *sender) refuse(ctx context.Context, t *try) error {
	results := slices.Repeat([]error{t.err}, len(t.letters))
	had := t.refusedBefore()
	for i, l := range t.letters {
		if l.Refusals == 0 && (had || i > 0) {
			results[i] = fmt.Errorf("%w: %w", event.ErrNotSent, t.err)
		}
	}
	_, err := s.settleRetry(ctx, t.letters, results)
	return err
}

// settleRetry records what became of refused events. What had no answer in the time of the batch counts as refused
// again, so that the next batch is not lost to it, too.
func (s *sender) settleRetry(
	ctx context.Context, letters []deadletter.Letter, results []error,
) (more bool, err error) {
	var gone, again pq.Int64Array
	var texts, subjects pq.StringArray
	var got []event.Event
	for i, l := range letters {
		switch err := results[i]; {
		case err == nil:
			gone, got = append(gone, l.Number), append(got, l.Event)
		case errors.Is(err, event.ErrNotSent) || errors.Is(ctx.Err(), context.Canceled):
			continue
		default:
			again, texts = append(again, l.Number), append(texts, plain.ErrorText(err))
			s.sent.Refusal = err
		}
		if l.Subject != "" {
			subjects = append(subjects, l.Subject)
		}
	}
	slices.Sort(subjects)
	subjects = slices.Compact(subjects)
	s.sent.Sent += int64(len(gone))
	s.sent.Refused += int64(len(again))
	var dead []int64
	err = s.record(ctx, s.at, nil, func(ctx context.Context, tx *sqlx.Tx) (err error) {
		if _, err = tx.ExecContext(ctx, pg.EventDeadSent.In(s.cfg.Schema), gone); err != nil {
			return err
		}
		if err = s.keep(ctx, tx, got); err != nil {
			return err
		}
		if dead, err = s.refuseAgain(ctx, tx, again, texts, letters); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, pg.EventDeadHead.In(s.cfg.Schema), s.to.Name, subjects)
		return err
	})
	if err != nil {
		return false, err
	}
	for i, l := range letters {
		if slices.Contains(dead, l.Number) {
			s.warnDead(ctx, l.Event, results[i])
		}
	}
	return len(gone) > 0, nil
}

// refuseAgain counts refusals, and returns the events that are dead letters now. Unless Config.Continue is set, those
// behind them become dead letters, too.
func (s *sender) refuseAgain(
	ctx context.Context, tx *sqlx.Tx, again pq.Int64Array, texts pq.StringArray, letters []deadletter.Letter,
) ([]int64, error) {
	if len(again) == 0 {
		return nil, nil
	}
	most := sql.NullInt64{Int64: int64(s.cfg.MaxRefusals), Valid: s.cfg.MaxRefusals > 0}
	age := sql.NullFloat64{Float64: s.cfg.MaxAge.Seconds(), Valid: s.cfg.MaxAge > 0}
	dead, err := pg.Collect(ctx, tx, pg.EventDeadAgain.In(s.cfg.Schema), []any{again, texts, most, age},
		func(row *sql.Rows, number *int64) error { return row.Scan(number) })
	if err != nil || len(dead) == 0 || s.cfg.Continue {
		return dead, err
	}
	var over pq.StringArray
	for _, l := range letters {
		if l.Subject != "" && slices.Contains(dead, l.Number) {
			over = append(over, l.Subject)
		}
	}
	_, err = tx.ExecContext(ctx, pg.EventDeadBehind.In(s.cfg.Schema), s.to.Name, over)
	return dead, err
}
