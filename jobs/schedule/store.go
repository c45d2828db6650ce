package schedule

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/payload"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures a Store. The zero value is the default.
type Config struct {
	// Schema holds the tables. Defaults to "prescient".
	Schema string
	// MaxPayload limits a payload, in bytes. Defaults to 65536 bytes.
	MaxPayload int
	// Now is the clock that instants are compared with, for a replay of the past or the future.
	// Defaults to the database's clock.
	Now func() time.Time
	// Setting has the result of pgsql.ReadSetting for the schema, so that it is not read again. Optional.
	Setting *pgsql.Setting
}

// Store creates, changes and reads schedules. It holds no connection and is safe for concurrent
// use.
//
// Its methods take a transaction of the caller, or a pool, which gets a transaction of their own;
// see jobs.DB. After an error, the caller must roll back its transaction. Errors of bad input join
// a jobs.FieldError for each field.
type Store struct {
	cfg    Config
	schema pgsql.Schema
	client *jobs.Client
}

// NewStore returns a store of schedules. Returns pgsql.ErrNotMigrated if the schema is missing.
func NewStore(ctx context.Context, db pgsql.Pool, cfg Config) (*Store, error) {
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, defaults.MaxPayload)
	// A crontab may have its next instant in many years, such as 29 February on a Sunday. The payload of a
	// trigger's check is larger than that of the schedule, to which Config.MaxPayload applies.
	client, err := jobs.NewClient(ctx, db, jobs.Config{
		Schema: cfg.Schema, Horizon: math.MaxInt64, MaxPayload: payload.MaxStored, Now: cfg.Now, Setting: cfg.Setting,
	})
	if err != nil {
		return nil, err
	}
	return &Store{cfg: cfg, schema: pgsql.Schema(cfg.Schema), client: client}, nil
}

// bulk is how many schedules are written by one statement.
const bulk = 5000

// Create adds a schedule. Its first instant is the first one after now. Returns ErrExists if the id
// is taken.
func (s *Store) Create(ctx context.Context, db jobs.DB, spec Spec) (created Schedule, err error) {
	err = inTx(ctx, db, func(tx jobs.DB) error {
		if err := s.create(ctx, tx, []Spec{spec}); err != nil {
			return err
		}
		created, err = s.Get(ctx, tx, spec.ID)
		return err
	})
	if err != nil {
		return Schedule{}, fmt.Errorf("create schedule %q: %w", spec.ID, err)
	}
	return created, nil
}

// CreateAll adds any number of schedules as they come, in bounded memory and one transaction, and
// returns their number. It reads the input only once, so it returns a deadlock with another session
// as an error, with nothing created.
func (s *Store) CreateAll(ctx context.Context, db jobs.DB, all iter.Seq[Spec]) (int64, error) {
	if all == nil {
		return 0, errors.New("create schedules: the sequence is nil")
	}
	var n int64
	err := once(ctx, db, func(tx jobs.DB) error {
		n = 0
		chunk := make([]Spec, 0, bulk)
		flush := func() error {
			err := s.create(ctx, tx, chunk)
			n += int64(len(chunk))
			chunk = chunk[:0]
			return err
		}
		for spec := range all {
			if chunk = append(chunk, spec); len(chunk) == bulk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	})
	if err != nil {
		return 0, fmt.Errorf("create schedules: %w", err)
	}
	return n, nil
}

// create writes schedules and the rows of future_job that stand for them.
func (s *Store) create(ctx context.Context, tx jobs.DB, specs []Spec) error {
	if len(specs) == 0 {
		return nil
	}
	now, err := s.now(ctx, tx)
	if err != nil {
		return err
	}
	var rows []jobs.Request
	var errs []error
	normal := make([]Spec, len(specs))
	for i, spec := range specs {
		row, err := s.prepareNew(&spec, now)
		if err != nil {
			if errs = append(errs, withID(specs, spec.ID, err)); len(errs) == maxListed {
				break
			}
		}
		if normal[i] = spec; row != nil {
			rows = append(rows, *row)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := s.parse(ctx, tx, normal, func(id string, err error) error { return withID(normal, id, err) }); err != nil {
		return err
	}
	ids, err := collect(ctx, s, tx, pg.ScheduleInsert, columns(normal), text)
	if err != nil {
		return err
	}
	if len(ids) < len(specs) {
		return withID(specs, firstMissing(normal, ids), ErrExists)
	}
	runs := slices.DeleteFunc(slices.Clone(normal), func(s Spec) bool { return s.Act.SQL == "" })
	if err := s.setActs(ctx, tx, runs); err != nil {
		return err
	}
	return s.enqueue(ctx, tx, rows, jobs.Keep)
}

// maxListed bounds the schedules that the error of a bulk call names.
const maxListed = 20

// prepareNew is prepare for a schedule that is not in the database yet.
func (s *Store) prepareNew(spec *Spec, now time.Time) (*jobs.Request, error) {
	if err := checkPayload(spec.Payload, s.cfg.MaxPayload); err != nil {
		return nil, err
	}
	row, err := s.prepare(spec, cursor{}, now)
	return row, errors.Join(checkID(spec.ID), err)
}

// prepare checks a spec, fills in its defaults, and returns its row of future_job with the given
// cursor. It returns nil for a paused schedule. It does not check the size of the payload, which
// another machine may have accepted.
func (s *Store) prepare(spec *Spec, known cursor, now time.Time) (*jobs.Request, error) {
	if spec.Anchor.IsZero() {
		spec.Anchor = now.Truncate(time.Second)
		if !spec.Start.IsZero() {
			spec.Anchor = spec.Start.Truncate(time.Second)
		}
	}
	normal, parsed, err := spec.normal(max(s.cfg.MaxPayload, len(spec.Payload)))
	if err != nil {
		return nil, err
	}
	*spec = normal
	first, ok := parsed.Next(now)
	switch {
	case !ok:
		return nil, neverFires(*spec, now)
	case spec.MaxRuns > 0 && known.Runs >= int64(spec.MaxRuns):
		return nil, &jobs.FieldError{
			Field: "max_runs",
			Message: fmt.Sprintf("it would never fire: it has published %s already",
				spoken.Count(known.Runs, "event", "events")),
		}
	case spec.Paused:
		return nil, nil
	}
	known.At = first.Unix()
	row := jobs.Request{JobExec: JobExec, EntityName: EntityName, EntityKey: spec.ID, Payload: known.payload()}
	row.CheckAt = first.Add(offset(spec.ID, spec.Spread))
	return &row, nil
}

func neverFires(spec Spec, now time.Time) error {
	within := ""
	if !spec.Start.IsZero() || !spec.End.IsZero() || len(spec.Exclude) > 0 {
		within = ", within its start and end and without what it excludes"
	}
	rule := fmt.Sprintf("it would never fire: %q has no instant after %s%s", spec.Crontab,
		now.Format(time.RFC3339), within)
	return &jobs.FieldError{Field: "crontab", Message: rule}
}

func (s *Store) enqueue(ctx context.Context, tx jobs.DB, rows []jobs.Request, on jobs.OnConflict) error {
	if len(rows) == 0 {
		return nil
	}
	counts, err := s.client.EnqueueMany(ctx, inside{tx}, rows, on)
	if err == nil && counts.Kept > 0 {
		return fmt.Errorf("%s that belong to no schedule in job %q: cancel them first, with jobs cancel %s ID",
			spoken.Count(counts.Kept, "check waits", "checks wait"), JobExec, EntityName)
	}
	return err
}

// Get returns a schedule, or ErrNotFound.
func (s *Store) Get(ctx context.Context, db jobs.DB, id string) (Schedule, error) {
	err := checkText("id", id)
	var list []Schedule
	if err == nil {
		list, err = s.list(ctx, db, Filter{Limit: 1}, pq.StringArray{id}, nil)
	}
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("read schedule %q: %w", id, err)
	}
	return list[0], nil
}

// Filter narrows a list of schedules. Zero fields do not narrow.
type Filter struct {
	// Prefix is the beginning of the ids.
	Prefix string
	// After is the last id of the previous page.
	After string
	State State
	Limit int // schedules of the list; default: all of them; of a page: 100
}

// List returns the schedules in the order of their ids, byte by byte. It reads them page by page, on
// a pool each page in a transaction of its own. After an error the list ends.
func (s *Store) List(ctx context.Context, db jobs.DB, f Filter) iter.Seq2[Schedule, error] {
	return seq.Pages(f.After, f.Limit, func(after string, limit int) (page []Schedule, next string, err error) {
		f := f
		f.After, f.Limit = after, limit
		page, more, err := s.Page(ctx, db, f)
		if more {
			next = page[len(page)-1].ID
		}
		return page, next, err
	})
}

// Page returns the first schedules of List, up to Limit, or fewer once their payloads have 4 MiB. It
// reports whether more schedules follow. The next page begins after the last id of this one.
func (s *Store) Page(ctx context.Context, db jobs.DB, f Filter) (page []Schedule, more bool, err error) {
	limit := cmp.Or(f.Limit, defaultPage)
	f.Limit = limit + 1
	list, err := s.list(ctx, db, f, nil, seq.PageBytes)
	if err != nil {
		return nil, false, fmt.Errorf("list schedules: %w", err)
	}
	n := seq.Fitting(list, limit, func(s Schedule) int { return len(s.Payload) })
	return list[:n], n < len(list), nil
}

// defaultPage is the default of Filter.Limit.
const defaultPage = 100

// list reads schedules: those with the given ids if ids is not nil, and up to a number of bytes if
// most is not nil.
func (s *Store) list(ctx context.Context, db jobs.DB, f Filter, ids, most any) (list []Schedule, err error) {
	for _, text := range []string{f.Prefix, f.After} {
		if err := checkText("id", text); err != nil {
			return nil, err
		}
	}
	state := sql.NullString{String: string(f.State), Valid: f.State != ""}
	args := []any{f.After, f.Prefix, state, cmp.Or(f.Limit, defaultPage), ids, most}
	err = reading(ctx, db, func(tx jobs.DB) error {
		list, err = collect(ctx, s, tx, pg.ScheduleList, args, scanSchedule)
		return err
	})
	return list, err
}

func scanSchedule(row *sql.Rows, s *Schedule) error {
	var slot sql.NullTime
	var next []byte
	var last, publishing, paused sql.NullTime
	err := s.scan(row, &s.Paused, &s.Version, &s.CreatedAt, &s.UpdatedAt, &s.Dropped, &s.Runs, &last, &slot, &next,
		&s.ErrorCount, &s.LastError,
		&publishing, &paused, &s.PausedBy)
	if err != nil {
		return err
	}
	s.CreatedAt, s.UpdatedAt, s.Last = s.CreatedAt.UTC(), s.UpdatedAt.UTC(), utc(last)
	s.PublishingPausedAt, s.PausedAt = utc(publishing), utc(paused)
	switch {
	case s.Paused:
		s.State = Paused
	case !slot.Valid:
		s.State = Ended
	default:
		s.State, s.Slot = Active, slot.Time.UTC()
		s.waits(next)
	}
	return nil
}

// waits fills in what the row of future_job contains.
func (s *Schedule) waits(payload []byte) {
	var w cursor
	if json.Unmarshal(payload, &w) != nil {
		return // the row was enqueued by hand
	}
	s.Runs, s.Rows = w.Runs, w.Rows
	if w.Last != 0 {
		s.Last = time.Unix(w.Last, 0).UTC()
	}
	if instants, err := s.instants(); w.From != 0 && (err != nil || !w.begin(instants)) {
		return // the first check will find no instant
	}
	s.Next = time.Unix(w.At, 0).UTC()
}

// known returns the cursor for a new row of the schedule.
func (s Schedule) known() cursor {
	var w cursor
	if !s.Last.IsZero() {
		w.Last = s.Last.Unix()
	}
	if s.MaxRuns > 0 {
		w.Runs = s.Runs
	}
	return w
}

func utc(t sql.NullTime) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// scan reads a row that begins with the columns of a spec, except paused. more takes the columns
// after them.
func (s *Spec) scan(row *sql.Rows, more ...any) error {
	var deadline sql.NullInt64
	var spread, timeout int64
	var start, end sql.NullTime
	dest := []any{
		&s.ID, &s.Crontab, &s.Timezone, (*[]byte)(&s.Payload), &deadline, &spread, &s.Misfire, &s.Anchor,
		&s.DeadlineFrom, &start, &end, &s.MaxRuns, (*pq.StringArray)(&s.Exclude),
		&s.Act.SQL, &s.Act.Role, &timeout, &s.Act.Job, &s.Act.Notify, &s.Act.Text,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return fmt.Errorf("read schedule: %w", err)
	}
	s.Deadline, s.Spread = time.Duration(deadline.Int64)*time.Second, time.Duration(spread)*time.Second
	s.Anchor, s.Start, s.End = s.Anchor.UTC(), utc(start), utc(end)
	s.Act.Timeout = time.Duration(timeout) * time.Second
	return nil
}

// columns returns the parameters of schedule_insert and schedule_update: one array for each column
// but those of statements, without nulls.
func columns(specs []Spec) []any {
	return pg.Columns(specs, func(s Spec) []string {
		return []string{
			s.ID, s.Crontab, s.Timezone, string(s.Payload), seconds(s.Deadline), seconds(s.Spread), string(s.Misfire),
			s.Anchor.Format(time.RFC3339), strconv.FormatBool(s.Paused), string(s.DeadlineFrom), timestamp(s.Start),
			timestamp(s.End), strconv.Itoa(s.MaxRuns), strings.Join(s.Exclude, "\n"), s.Act.Job, s.Act.Notify, s.Act.Text,
		}
	})
}

// seconds returns a duration as a number of whole seconds.
func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// timestamp returns an instant as text, and "-infinity" for the zero time.
func timestamp(at time.Time) string {
	if at.IsZero() {
		return "-infinity"
	}
	return string(pq.FormatTimestamp(at))
}

// Clock returns the grid of the database, for Preview, and the instant that instants are compared with.
func (s *Store) Clock(ctx context.Context, db jobs.DB) (g grid.Grid, now time.Time, err error) {
	err = reading(ctx, db, func(tx jobs.DB) error {
		g, now, err = settings(ctx, tx, s.schema)
		return err
	})
	if s.cfg.Now != nil {
		now = s.cfg.Now().UTC()
	}
	return g, now, err
}

// now returns the instant that instants are compared with.
func (s *Store) now(ctx context.Context, tx jobs.DB) (time.Time, error) {
	if s.cfg.Now != nil {
		return s.cfg.Now().UTC(), nil
	}
	_, now, err := settings(ctx, tx, s.schema)
	return now, err
}

// settings reads the grid and the clock in a transaction, because the width may have changed since
// the Store or the run began.
func settings(ctx context.Context, tx jobs.DB, schema pgsql.Schema) (g grid.Grid, now time.Time, err error) {
	var width, clock int64
	var ignored any
	if err = pg.One(ctx, tx, pg.ReadSettings.In(schema), nil, &width, &ignored, &ignored, &ignored, &clock,
		&ignored, &ignored, &ignored, &ignored, &ignored); err == nil {
		g, err = grid.New(time.Duration(width) * time.Second)
	}
	if err != nil {
		return g, now, fmt.Errorf("read settings: %w", err)
	}
	return g, time.UnixMicro(clock).UTC(), nil
}

// withID adds the id to the error of one of several schedules.
func withID(all []Spec, id string, err error) error {
	if len(all) == 1 {
		return err
	}
	return fmt.Errorf("schedule %q: %w", id, err)
}

// firstMissing returns the first id that was not written.
func firstMissing(specs []Spec, ids []string) string {
	slices.Sort(ids)
	for _, s := range specs {
		i, found := slices.BinarySearch(ids, s.ID)
		if !found {
			return s.ID
		}
		ids = slices.Delete(ids, i, i+1) // a second spec with this id counts as missing
	}
	return ""
}
