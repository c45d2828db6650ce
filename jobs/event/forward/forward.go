package forward

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures a Forwarder. DB must be set; every other zero field means its default.
type Config struct {
	// DB and Schema are the store whose outbox is read. Schema defaults to "prescient".
	DB     pgsql.Pool
	Schema pgsql.Schema
	// Destinations are where events go, each with a name of its own.
	Destinations []Destination
	// MaxRefusals is how many refusals make an event a dead letter. 0: there is no limit.
	MaxRefusals int
	// MaxAge is how long after its first refusal a further one makes an event a dead letter. 0: there is no limit.
	MaxAge time.Duration
	// Continue sends later events of the subject of a dead letter. Default: they wait behind it, in the list.
	Continue bool
	// RetryNow tries refused events at once, also before their pauses are over, and lets Finish wait for what a
	// destination gets only later (event.ErrThrottled).
	RetryNow bool
	// Lease is how long a forwarder that is silent keeps a destination. Defaults to DefaultLease.
	Lease time.Duration
	// Logger gets a warning when a destination begins to fail, when it refuses the first event, and for each dead letter.
	// Default: slog.Default().
	Logger *slog.Logger
}

// Destination is where a Forwarder sends events.
type Destination struct {
	// Name is the name of its consumer in the outbox.
	Name string
	// Address is shown to operators, and must hold no secret.
	Address string
	// Types are the types of the events that it gets, such as order.*, where * stands for any text. Empty: all, but
	// for messages to people.
	Types []string
	// SendAt returns when an event is sent. The zero time: at once. Until then it waits in the list of refused events,
	// and holds back no other event. Those that are due together are in one call of the Publisher. Optional.
	SendAt func(e event.Event) time.Time
	// About returns the problem that an event tells of, and whether the event tells that it is over. Such an event waits
	// if one about the same problem waits for its time. Empty: of none. Optional.
	About func(e event.Event) (problem string, over bool)
	// Keep records in table event_sent when the destination got each event.
	Keep bool
	// Told says that a person knows that the destination fails: the log then has it as information, not as a warning.
	Told bool
	// Publisher sends the events. The Forwarder does not close it.
	Publisher event.Publisher
}

const (
	// DefaultLease is the default of Config.Lease.
	DefaultLease = time.Minute

	idlePause   = time.Second           // between two looks into an outbox without events
	awakePause  = 20 * time.Millisecond // the same after Wake
	awakeFor    = 5 * time.Second       // how long Wake lasts: the transaction of the events commits later
	firstPause  = time.Second           // after a failure; it doubles
	longestWait = time.Minute           // the longest pause after a failure
	patience    = 3 * time.Second       // how long Finish waits for events that an open transaction holds back
	recordTime  = 10 * time.Second      // for the record of what was sent
)

// monotonic measures durations.
var monotonic = time.Now //nolint:forbidigo // measures

// Forwarder sends events to destinations until it is stopped.
type Forwarder struct {
	senders   []*sender
	stop      context.CancelFunc
	finishing chan struct{} // closed by Finish
	once      sync.Once
	work      sync.WaitGroup
}

// Sent says what a Forwarder has done for a destination.
type Sent struct {
	Name    string
	Sent    int64 // events that the destination accepted
	Refused int64 // refusals; the events are tried again, or are dead letters
	// Refusal is the last answer to an event that was refused. Nil: none was.
	Refusal error
	// Err is the error of the last try. Nil: it was accepted, or there was nothing to send.
	Err error
	// Elsewhere says that another process sends to the destination.
	Elsewhere bool
	// Held says that Finish sent nothing for its last 3 s and left events, because an open transaction holds them back.
	Held bool
}

// Name makes the destinations known to the outbox: it keeps the events that are written from now on.
func Name(ctx context.Context, cfg Config) error {
	for _, to := range cfg.Destinations {
		err := pgsql.InTx(ctx, pg.Sqlx(cfg.DB), func(tx *sqlx.Tx) error {
			var mark sql.NullString
			var position sql.NullInt64
			err := pg.One(ctx, tx, pg.EventEnd.In(cfg.Schema), nil, &mark, &position)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			_, err = tx.ExecContext(ctx, pg.EventName.In(cfg.Schema),
				to.Name, to.Address, patterns(to.Types), mark, position)
			return err
		})
		if err != nil {
			return fmt.Errorf("name destination %q: %w", to.Name, pg.ExplainMissing(err))
		}
	}
	return nil
}

// patterns returns patterns for like; nil for all types.
func patterns(types []string) any {
	if len(types) == 0 {
		return nil
	}
	list := make(pq.StringArray, len(types))
	for i, t := range types {
		list[i] = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(t)
	}
	return list
}

// Start names the destinations, and sends their events until ctx ends, or Stop or Finish is called.
func Start(ctx context.Context, cfg Config) (*Forwarder, error) {
	if pg.Sqlx(cfg.DB) == nil {
		return nil, errors.New("forward.Config: DB must be set")
	}
	cfg.Lease = cmp.Or(cfg.Lease, DefaultLease)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	f := &Forwarder{finishing: make(chan struct{})}
	ctx, f.stop = context.WithCancel(ctx)
	if err := Name(ctx, cfg); err != nil {
		f.stop()
		return nil, err
	}
	for _, to := range cfg.Destinations {
		if err := tryNow(ctx, cfg, to.Name); err != nil {
			f.stop()
			return nil, err
		}
	}
	for _, to := range cfg.Destinations {
		s := &sender{
			cfg: cfg, to: to, db: pg.Sqlx(cfg.DB), box: outbox.New(cfg.DB, cfg.Schema), finishing: f.finishing,
			token: rand.Int64(), size: firstSize, done: map[outbox.Position]bool{}, wake: make(chan struct{}, 1),
		}
		s.sent.Name = to.Name
		f.senders = append(f.senders, s)
		f.work.Go(func() { s.loop(ctx) })
	}
	return f, nil
}

// Wake makes the forwarder look into the outbox at once and often for a while, because events are being written.
func (f *Forwarder) Wake() {
	for _, s := range f.senders {
		s.awake.Store(int64(monotonic().Add(awakeFor).Sub(began)))
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// began is the instant from which sender.awake counts.
var began = monotonic()

// Finish sends what waits, and returns what was done. It leaves what a destination does not accept now, also because
// it gets no more for now (event.ErrThrottled), unless Config.RetryNow is set. It also leaves what another process
// sends. A destination that has just failed is not tried again before its pause is over. Finish waits up to 3 s for
// events that an open transaction holds back.
func (f *Forwarder) Finish() []Sent {
	f.once.Do(func() { close(f.finishing) })
	f.work.Wait()
	f.stop()
	return f.results()
}

// Stop ends the forwarder, and returns when what it has sent is recorded.
func (f *Forwarder) Stop() []Sent {
	f.stop()
	f.work.Wait()
	return f.results()
}

func (f *Forwarder) results() (list []Sent) {
	for _, s := range f.senders {
		list = append(list, s.sent)
	}
	return list
}

// sender sends to one destination.
type sender struct {
	cfg       Config
	to        Destination
	db        *sqlx.DB
	box       *outbox.Outbox
	token     int64
	finishing chan struct{}
	wake      chan struct{}
	awake     atomic.Int64 // until when it looks often, after began

	held       bool
	heldAt     time.Time                // before the statement that took or renewed the lease
	at         outbox.Position          // of the consumer
	waits                               // since the last record or look
	failures   int                      // in a row
	size       int                      // events of the next batch
	done       map[outbox.Position]bool // events that need nothing more, beyond the position of the consumer
	unanswered *try                     // refused events without an answer in this turn; nil: none
	// outboxFirst tells that the last step had no time for the outbox, and throttled that the destination got no more in
	// it.
	outboxFirst, throttled bool
	warned                 bool // that the destination refuses events
	sent                   Sent
}

// loop sends until ctx ends, or nothing is left after Finish.
func (s *sender) loop(ctx context.Context) {
	defer s.release(context.WithoutCancel(ctx))
	var until time.Time      // while it finishes
	var from outbox.Position // of the consumer when it began to finish
	for ctx.Err() == nil {
		err := s.drain(ctx)
		pause := s.note(ctx, err)
		select {
		case <-s.finishing:
			if until.IsZero() || s.throttled { // what a destination takes later waits for no transaction
				until, from = monotonic().Add(patience), s.at
			}
			w, looked := s.look(ctx)
			if err != nil || looked != nil || w == (waits{}) || s.leaves() {
				return
			}
			if monotonic().After(until) {
				s.sent.Held = w.events && s.at == from
				return
			}
			pause = awakePause
		default:
		}
		if s.wait(ctx, pause, until.IsZero()) {
			return
		}
	}
}

// wait waits for pause, or until it is woken. It reports whether Finish was called during the pause of a destination
// that fails: the next forwarder tries it again.
func (s *sender) wait(ctx context.Context, pause time.Duration, wakes bool) (leaves bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var finish chan struct{}
	if wakes {
		finish = s.finishing
	}
	wake := s.wake
	if s.failures > 0 {
		wake = nil // events that are written do not shorten the pause of a destination that fails
	}
	select {
	case <-timer.C:
	case <-wake:
	case <-finish:
		return s.failures > 0
	case <-ctx.Done():
	}
	return false
}

// note records the result of a turn, logs when it changes, and returns how long to pause.
func (s *sender) note(ctx context.Context, err error) time.Duration {
	s.sent.Elsewhere = errors.Is(err, errHeld)
	level := slog.LevelWarn
	if s.to.Told {
		level = slog.LevelInfo
	}
	if s.sent.Refusal != nil && !s.warned {
		s.warned = true
		s.cfg.Logger.Log(ctx, level, "a destination refuses events; they are tried again, unless they are dead letters",
			"destination", s.to.Name, "error", s.sent.Refusal)
	}
	switch {
	case s.sent.Elsewhere || ctx.Err() != nil:
		return idlePause
	case err != nil:
		if s.failures == 0 {
			s.cfg.Logger.Log(ctx, level, "a destination does not take events; they wait in the outbox, and are sent again",
				"destination", s.to.Name, "error", err)
		}
		s.sent.Err = err
		s.failures++
		return min(longestWait, max(firstPause<<min(s.failures-1, 10), asked(err)))
	}
	if s.failures > 0 {
		s.cfg.Logger.InfoContext(ctx, "a destination takes events again", "destination", s.to.Name)
	}
	s.failures, s.sent.Err = 0, nil
	if time.Duration(s.awake.Load()) > monotonic().Sub(began) {
		return awakePause
	}
	return idlePause
}

// asked returns how long a destination asks to wait. 0: it does not say.
func asked(err error) time.Duration {
	if status, is := errors.AsType[*egress.StatusError](err); is {
		return status.RetryAfter
	}
	return 0
}

// wants reports whether the destination gets events of a type.
func (s *sender) wants(typ string) bool {
	matches := func(pattern string) bool { return Matches(pattern, typ) }
	return len(s.to.Types) == 0 && !strings.HasPrefix(typ, message.Prefix) || slices.ContainsFunc(s.to.Types, matches)
}

// Matches reports whether a type matches a pattern, in which * stands for any text.
func Matches(pattern, typ string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(typ, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, last)
}
