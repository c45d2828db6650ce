package forward

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/stored"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	firstSize = 256
	mostSize  = 4096
	mostBytes = 16 << 20
	quick     = time.Second // a batch that takes less is followed by a larger one
)

// drain sends until nothing can be sent now.
func (s *sender) drain(ctx context.Context) (err error) {
	if s.waits, err = s.look(ctx); err != nil || s.waits == (waits{}) {
		return err
	}
	s.heldAt, s.unanswered = time.Time{}, nil // the consumer may have moved since the last turn
	for more := true; more && s.waits != (waits{}) && ctx.Err() == nil; {
		if monotonic().Sub(s.heldAt) >= s.cfg.Lease/3 { // also if a record has taken long
			if err := s.hold(ctx); err != nil {
				return err
			}
		}
		s.throttled = false
		if more, err = s.step(ctx); err != nil || s.leaves() {
			return err
		}
	}
	return nil
}

// leaves reports whether Finish was called and leaves the rest of a destination that gets no more for now. A step that
// had no time for the outbox is followed by one that has.
func (s *sender) leaves() bool {
	select {
	case <-s.finishing:
		return s.throttled && !s.outboxFirst && !s.cfg.RetryNow
	default:
		return false
	}
}

// step tries refused events again, and sends one batch of the outbox. It reports whether more may follow at once.
//
// A batch costs two transactions: one reads it, and one records what became of it, renews the lease and finds out what
// waits.
func (s *sender) step(ctx context.Context) (more bool, err error) {
	// The lease outlasts the batch, so that no other forwarder sends at the same time: also if the statement that renewed
	// it has taken long, or this process stood still since.
	sending, cancel := context.WithDeadlineCause(ctx, s.heldAt.Add(s.cfg.Lease*2/3),
		fmt.Errorf("the destination has not answered within %s", s.cfg.Lease*2/3))
	defer cancel()
	if s.again && s.unanswered == nil && !s.outboxFirst {
		if more, s.unanswered, err = s.retry(sending); err != nil {
			return false, err
		}
		switch {
		case s.unanswered != nil && errors.Is(sending.Err(), context.DeadlineExceeded):
			return false, errors.Join(s.refuse(ctx, s.unanswered), s.isDown(ctx, s.unanswered.err))
		case sending.Err() != nil: // the next step has the time for the outbox
			s.outboxFirst = s.events
			return more || s.events, nil
		}
	}
	s.outboxFirst = false
	var b *batch
	if s.events {
		b, err = s.read(sending)
	}
	if lost, ok := errors.AsType[*outbox.LostError](err); ok {
		s.cfg.Logger.WarnContext(ctx, "events were removed before a destination got them",
			"destination", s.to.Name, "error", err)
		return true, s.record(ctx, lost.UpTo, nil, nil)
	}
	if err == nil && b == nil && s.unanswered != nil {
		err = s.isDown(ctx, s.unanswered.err)
	}
	if err != nil || b == nil {
		return more && err == nil, err
	}
	b.publish(sending)
	if more, err = s.settle(ctx, b); s.unanswered == nil || err != nil {
		return more, err
	}
	if slices.Contains(b.fates, accepted) {
		err = s.refuse(ctx, s.unanswered)
		s.unanswered = nil
	}
	return more && err == nil, err // without an answer to another event, the next page tells
}

// fate is the result of a try for one event of a batch.
type fate int

const (
	unsent  fate = iota // it stays in the outbox
	settled             // it was accepted before, or is not for this destination
	accepted
	refused
	behind // it waits behind a refused one
	later  // it waits for its time
)

// batch is a page of the outbox on its way.
type batch struct {
	*sender
	page  []outbox.Stored
	fates []fate
	dead  []bool      // of refused and behind
	errs  []error     // of refused and unsent
	times []time.Time // of later
	took  time.Duration
	cut   error // why it was cut short, if its time was over
}

// known says what the list of refused events has of a subject.
type known struct{ dead, live bool }

// read reads the next page, and decides which events are sent.
func (s *sender) read(ctx context.Context) (b *batch, err error) {
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		page, err := s.box.PageTx(reserved.Caller{}, ctx, tx, s.at, s.size, mostBytes)
		if err != nil || len(page) == 0 {
			return err
		}
		b = &batch{
			sender: s, page: page, fates: make([]fate, len(page)), dead: make([]bool, len(page)),
			errs: make([]error, len(page)), times: make([]time.Time, len(page)),
		}
		return b.decide(ctx, tx)
	})
	return b, err
}

// decide decides which events of the page are sent.
func (b *batch) decide(ctx context.Context, tx *sqlx.Tx) error {
	s := b.sender
	var subjects pq.StringArray
	for i, e := range b.page {
		if s.done[e.Position] || !s.wants(e.Type) {
			b.fates[i] = settled
			continue
		}
		if s.to.SendAt != nil {
			b.times[i] = s.to.SendAt(e.Event)
		}
		if !b.times[i].IsZero() {
			b.fates[i] = later
		} else if e.Subject != "" {
			subjects = append(subjects, e.Subject)
		}
	}
	blocked, err := s.blocked(ctx, tx, subjects)
	if err != nil {
		return err
	}
	for i, e := range b.page {
		k, is := blocked[e.Subject]
		if b.fates[i] != unsent || e.Subject == "" || !is || s.cfg.Continue && !k.live {
			continue
		}
		b.fates[i], b.dead[i] = behind, k.dead && !s.cfg.Continue
	}
	return b.endsLater(ctx, tx)
}

// endsLater lets an event that tells that a problem is over wait for the one that tells of the problem.
func (b *batch) endsLater(ctx context.Context, tx *sqlx.Tx) error {
	if b.to.About == nil {
		return nil
	}
	at := map[string]time.Time{} // of the problems whose events wait
	var subjects pq.StringArray
	of := map[int]string{} // the problem that an event ends
	for i, e := range b.page {
		problem, over := b.to.About(e.Event)
		switch {
		case problem == "":
		case !over && b.fates[i] == later:
			at[problem] = grid.Later(at[problem], b.times[i])
		case over && (b.fates[i] == later || b.fates[i] == unsent || b.fates[i] == behind && !b.dead[i]):
			of[i], subjects = problem, append(subjects, e.Subject)
		}
	}
	if len(of) == 0 {
		return nil
	}
	_, err := pg.Collect(ctx, tx, pg.EventToldLater.In(b.cfg.Schema), []any{b.to.Name, subjects},
		func(row *sql.Rows, e *event.Event) error {
			var told time.Time
			err := row.Scan(append(stored.Into(e), &told)...)
			problem, _ := b.to.About(*e)
			at[problem] = grid.Later(at[problem], told)
			return err
		})
	if err != nil {
		return err
	}
	for i, problem := range of {
		if told, waits := at[problem]; waits {
			b.fates[i], b.times[i] = later, grid.Later(b.times[i], told)
		}
	}
	return nil
}

// blocked returns the subjects that have refused events.
func (s *sender) blocked(ctx context.Context, tx *sqlx.Tx, subjects pq.StringArray) (map[string]known, error) {
	list := map[string]known{}
	if len(subjects) == 0 {
		return list, nil
	}
	_, err := pg.Collect(ctx, tx, pg.EventDeadSubjects.In(s.cfg.Schema), []any{s.to.Name, subjects},
		func(row *sql.Rows, subject *string) error {
			var k known
			err := row.Scan(subject, &k.dead, &k.live)
			list[*subject] = k
			return err
		})
	return list, err
}

// publish sends what is to be sent, and decides what becomes of each event.
func (b *batch) publish(ctx context.Context) {
	var events []event.Event
	var of []int
	failed := map[string]bool{} // subjects with a refused event of this batch
	for i, e := range b.page {
		if b.fates[i] != unsent {
			continue
		}
		if err := e.Validate(); err != nil { // written by SQL
			b.markRefused(i, err, failed)
		} else if !b.holdBack(i, failed) {
			events, of = append(events, e.Event), append(of, i)
		}
	}
	if len(events) == 0 {
		return
	}
	began := monotonic()
	err := b.to.Publisher.Publish(ctx, events)
	b.took, b.cut = monotonic().Sub(began), context.Cause(ctx)
	_, partial := errors.AsType[*event.PartialError](err)
	results := event.Errors(err, len(events))
	accepted := int64(0)
	for _, err := range results {
		if err == nil {
			accepted++
		}
	}
	b.sent.Sent += accepted
	for n, i := range of {
		b.judge(i, results[n], accepted > 0, partial, failed)
	}
	b.keepEnds()
}

// keepEnds leaves an event that tells that a problem is over, and waits for its time, in the outbox behind an unsent
// one about the problem. In the list, it could be sent before that one.
func (b *batch) keepEnds() {
	if b.to.About == nil || !slices.Contains(b.fates, unsent) || !slices.Contains(b.fates, later) {
		return
	}
	left := map[string]error{} // why an event about a problem is unsent
	for i, e := range b.page {
		problem, over := b.to.About(e.Event)
		err, is := left[problem]
		switch {
		case problem == "":
		case b.fates[i] == unsent:
			left[problem] = b.errs[i]
		case is && over && b.fates[i] == later:
			b.fates[i], b.errs[i] = unsent, err
		}
	}
}

// judge decides about an event that was sent.
func (b *batch) judge(i int, err error, others, partial bool, failed map[string]bool) {
	b.errs[i] = err
	switch {
	case err == nil:
		b.fates[i] = accepted
	case !partial: // nothing is known of any event
	case errors.Is(err, event.ErrRefused), others && !errors.Is(err, event.ErrNotSent) && !b.cutShort(err):
		b.markRefused(i, err, failed)
	case errors.Is(err, event.ErrBlocked):
		b.holdBack(i, failed)
	}
}

// markRefused puts an event into the list of refused ones.
func (b *batch) markRefused(i int, err error, failed map[string]bool) {
	b.fates[i], b.dead[i], b.errs[i] = refused, b.cfg.MaxRefusals == 1, err
	if subject := b.page[i].Subject; subject != "" {
		failed[subject] = b.dead[i]
	}
	b.sent.Refused, b.sent.Refusal = b.sent.Refused+1, err
}

// holdBack puts an event into the list if it waits there behind a refused one of its subject, and reports whether it
// does.
func (b *batch) holdBack(i int, failed map[string]bool) bool {
	dead, is := failed[b.page[i].Subject]
	if !is || dead && b.cfg.Continue {
		return false
	}
	b.fates[i], b.dead[i] = behind, dead
	return true
}

// cutShort reports whether an event failed because the time of its batch was over. An answer, or the end of the event's
// own time, is an error of the event.
func (b *batch) cutShort(err error) bool {
	_, answer := errors.AsType[*egress.StatusError](err)
	return b.cut != nil && !answer &&
		(errors.Is(err, b.cut) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// settle records a batch, and reports whether more may follow at once.
func (s *sender) settle(ctx context.Context, b *batch) (more bool, err error) {
	upTo, open := s.at, false
	var failure error
	var list, waiting, got []event.Event
	var texts, times, recipients pq.StringArray
	var dead pq.BoolArray
	progress := false
	for i, e := range b.page {
		switch b.fates[i] {
		case unsent:
			open = true
			if failure == nil || errors.Is(failure, event.ErrNotSent) {
				failure = b.errs[i]
			}
			continue
		case refused, behind:
			list, dead = append(list, e.Event), append(dead, b.dead[i])
			text := ""
			if b.fates[i] == refused {
				text = plain.ErrorText(b.errs[i])
			}
			texts = append(texts, text)
		case later:
			waiting, times = append(waiting, e.Event), append(times, string(pq.FormatTimestamp(b.times[i].UTC())))
			recipients = append(recipients, recipient(e.Event))
		case accepted:
			got = append(got, e.Event)
		}
		progress = progress || b.fates[i] != settled && !s.done[e.Position]
		if open {
			s.done[e.Position] = true
		} else {
			upTo = e.Position
			delete(s.done, e.Position)
		}
	}
	stopped, throttled := ctx.Err() != nil, errors.Is(failure, event.ErrThrottled)
	s.throttled = s.throttled || throttled
	if stopped || throttled || progress && (b.cut != nil || errors.Is(failure, event.ErrBlocked)) {
		failure = nil // the next batch has what is left
	}
	err = s.record(ctx, upTo, failure, func(ctx context.Context, tx *sqlx.Tx) (err error) {
		if len(list) > 0 {
			_, err = tx.ExecContext(ctx, pg.EventDeadHold.In(s.cfg.Schema),
				append(stored.Columns(list), s.to.Name, texts, dead)...)
		}
		if err == nil && len(waiting) > 0 {
			_, err = tx.ExecContext(ctx, pg.EventLater.In(s.cfg.Schema),
				append(stored.Columns(waiting), s.to.Name, times, recipients)...)
		}
		return cmp.Or(err, s.keep(ctx, tx, got))
	})
	if err != nil {
		b.decideAgain()
	} else {
		b.logDead(ctx)
	}
	s.resize(b, open, progress, throttled)
	if err != nil || failure != nil {
		return false, errors.Join(err, failure)
	}
	return !stopped && (progress || !throttled), nil
}

// logDead logs the dead letters of a batch. Of those that wait behind another one, it logs the first of each subject.
func (b *batch) logDead(ctx context.Context) {
	logged := map[string]bool{} // subjects
	for i, e := range b.page {
		if b.dead[i] && (b.fates[i] == refused || !logged[e.Subject]) {
			logged[e.Subject] = true
			b.warnDead(ctx, e.Event, cmp.Or(b.errs[i], errBehindDead))
		}
	}
}

var errBehindDead = errors.New("not tried, because an earlier event of its subject is a dead letter")

// recipient returns to whom a message goes, as a text that the database takes.
func recipient(e event.Event) string {
	var m message.Message
	_ = json.Unmarshal(e.Data, &m) // what is no message has no recipient
	return strings.ReplaceAll(m.To, "\x00", "\uFFFD")
}

// decideAgain lets the next batch decide about the events of which nothing was recorded. What the destination has got
// need not be sent again, unless that had to be recorded, too.
func (b *batch) decideAgain() {
	for i, e := range b.page {
		switch b.fates[i] {
		case refused, behind, later:
			delete(b.done, e.Position)
		case accepted:
			if b.to.Keep {
				delete(b.done, e.Position)
			}
		}
	}
}

// keep records that the destination got events, if it wants that.
func (s *sender) keep(ctx context.Context, tx *sqlx.Tx, got []event.Event) error {
	if !s.to.Keep || len(got) == 0 {
		return nil
	}
	columns := pg.Columns(got, func(e event.Event) []string { return []string{e.Source, e.ID, e.Subject} })
	_, err := tx.ExecContext(ctx, pg.EventSent.In(s.cfg.Schema), append([]any{s.to.Name}, columns...)...)
	return err
}

// resize chooses the size of the next batch by the time of this one. A throttled one says nothing about the size: many
// events in a batch are few messages. While the destination accepts nothing, the batch grows: an event that it accepts
// may follow many that it does not accept.
func (s *sender) resize(b *batch, open, progress, throttled bool) {
	switch {
	case throttled:
	case b.cut != nil:
		s.size = max(1, len(b.page)/2)
	case open && !progress, !open && b.took < quick && len(b.page) == s.size:
		s.size = min(mostSize, 2*s.size)
	}
}

func (s *sender) warnDead(ctx context.Context, e event.Event, err error) {
	s.cfg.Logger.WarnContext(ctx, "event is a dead letter", "destination", s.to.Name, "id", e.ID, "subject", e.Subject,
		"error", err)
}
