package schedule

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// AnyVersion is the version for a change of a schedule whatever its version is.
const AnyVersion = 0

// Update replaces the whole content of a schedule. A zero Anchor keeps the current one. version is
// the version that the caller has read. Returns ErrVersion if it is not the current one. An update
// that changes nothing keeps the version.
func (s *Store) Update(ctx context.Context, db jobs.DB, spec Spec, version int) (Schedule, error) {
	return s.Edit(ctx, db, spec.ID, version, func(Spec) (Spec, error) { return spec, nil })
}

// Edit updates a schedule to the one that fn returns. fn gets the current schedule, which is locked
// meanwhile. If fn returns an error, nothing changes. Edit may call fn again, because it may repeat
// the transaction. A schedule keeps its ID. See Update.
func (s *Store) Edit(
	ctx context.Context, db jobs.DB, id string, version int, fn func(Spec) (Spec, error),
) (Schedule, error) {
	return s.changeOne(ctx, db, "update", edit{id, version, fn})
}

// Pause stops the events of a schedule until Resume.
func (s *Store) Pause(ctx context.Context, db jobs.DB, id string, version int) (Schedule, error) {
	return s.setPaused(ctx, db, "pause", id, version, true)
}

// Resume ends a pause: the next instant is the first one after now.
func (s *Store) Resume(ctx context.Context, db jobs.DB, id string, version int) (Schedule, error) {
	return s.setPaused(ctx, db, "resume", id, version, false)
}

func (s *Store) setPaused(
	ctx context.Context, db jobs.DB, verb, id string, version int, paused bool,
) (Schedule, error) {
	return s.changeOne(ctx, db, verb, edit{id, version, func(spec Spec) (Spec, error) {
		spec.Paused = paused
		return spec, nil
	}})
}

// Delete removes a schedule. Nothing of it is published after the transaction has committed.
func (s *Store) Delete(ctx context.Context, db jobs.DB, id string, version int) error {
	err := inTx(ctx, db, func(tx jobs.DB) error {
		return s.removeAll(ctx, tx, []Change{{Delete, Spec{ID: id}, version}})
	})
	if err != nil {
		return fmt.Errorf("delete schedule %q: %w", id, err)
	}
	return nil
}

// remove deletes locked schedules. It deletes their rows of future_job first, so a run that holds
// one ends before.
func (s *Store) remove(ctx context.Context, tx jobs.DB, ids []string) error {
	for _, stmt := range []pg.Statement{pg.ScheduleCancel, pg.ScheduleDelete} {
		var n int64
		if err := pg.One(ctx, tx, stmt.In(s.schema), []any{pq.StringArray(ids)}, &n); err != nil {
			return err
		}
	}
	return nil
}

// edit is a change of one schedule.
type edit struct {
	id      string
	version int
	apply   func(Spec) (Spec, error)
}

func (s *Store) changeOne(ctx context.Context, db jobs.DB, verb string, e edit) (changed Schedule, err error) {
	err = inTx(ctx, db, func(tx jobs.DB) error {
		if err := s.change(ctx, tx, []edit{e}); err != nil {
			return err
		}
		changed, err = s.Get(ctx, tx, e.id)
		return err
	})
	if err != nil {
		return Schedule{}, fmt.Errorf("%s schedule %q: %w", verb, e.id, err)
	}
	return changed, nil
}

// locked holds schedules that a transaction has locked, by id. Their rows of future_job are locked
// too.
type locked map[string]Schedule

// lock locks schedules and then their rows of future_job. A run locks only rows, and never waits
// for one, so there is no deadlock.
func (s *Store) lock(ctx context.Context, tx jobs.DB, ids []string) (locked, error) {
	all, err := s.lockChanges(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	type row struct {
		id      string
		payload []byte
	}
	rows, err := collect(ctx, s, tx, pg.ScheduleWait, []any{pq.StringArray(ids)}, func(r *sql.Rows, v *row) error {
		return r.Scan(&v.id, &v.payload)
	})
	if err != nil {
		return nil, err
	}
	if err := s.past(ctx, tx, all); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if v, ok := all[row.id]; ok {
			v.State = Active
			v.waits(row.payload)
			all[row.id] = v
		}
	}
	return all, nil
}

// past fills in the last instant and the runs of schedules that have no waiting row.
func (s *Store) past(ctx context.Context, tx jobs.DB, all locked) error {
	_, err := collect(ctx, s, tx, pg.SchedulePast, []any{pq.StringArray(slices.Collect(maps.Keys(all)))},
		func(row *sql.Rows, id *string) error {
			var runs int64
			var last sql.NullTime
			if err := row.Scan(id, &runs, &last); err != nil {
				return err
			}
			v := all[*id]
			v.Runs, v.Last = runs, utc(last)
			all[*id] = v
			return nil
		})
	return err
}

// lockChanges locks schedules against changes and deletes, but does not block runs. It does not
// read their rows.
func (s *Store) lockChanges(ctx context.Context, tx jobs.DB, ids []string) (locked, error) {
	for _, id := range ids {
		if err := checkText("id", id); err != nil {
			return nil, err
		}
	}
	list, err := collect(ctx, s, tx, pg.ScheduleLock, []any{pq.StringArray(ids)},
		func(row *sql.Rows, v *Schedule) error {
			return v.scan(row, &v.Paused, &v.Version, &v.CreatedAt, &v.UpdatedAt)
		})
	all := locked{}
	for _, v := range list {
		v.State = Ended
		all[v.ID] = v
	}
	return all, err
}

func (l locked) find(id string, version int) (Schedule, error) {
	switch v, ok := l[id]; {
	case !ok:
		return v, ErrNotFound
	case version != AnyVersion && version != v.Version:
		return v, fmt.Errorf("%w: it is %d, not %d", ErrVersion, v.Version, version)
	default:
		return v, nil
	}
}

// change applies edits, each of another schedule.
func (s *Store) change(ctx context.Context, tx jobs.DB, edits []edit) error {
	ids := make([]string, len(edits))
	for i, e := range edits {
		ids[i] = e.id
	}
	current, err := s.lock(ctx, tx, ids)
	if err != nil {
		return err
	}
	now, err := s.now(ctx, tx) // after the lock, which may have waited for a run that published up to this moment
	if err != nil {
		return err
	}
	specs, err := s.edited(ctx, tx, current, edits)
	if err != nil {
		return err
	}
	var c changes
	for _, spec := range specs {
		if err := s.plan(&c, current[spec.ID], spec, now); err != nil {
			return withID(specs, spec.ID, err)
		}
	}
	return s.write(ctx, tx, c)
}

// edited returns the specs after the edits.
func (s *Store) edited(ctx context.Context, tx jobs.DB, current locked, edits []edit) ([]Spec, error) {
	specs := make([]Spec, len(edits))
	for i, e := range edits {
		was, err := current.find(e.id, e.version)
		var spec Spec
		if err == nil {
			spec, err = e.apply(was.Spec)
		}
		if err == nil {
			spec.ID = e.id
			specs[i], err = s.checked(spec.after(was.Spec), was.Spec)
		}
		if err != nil {
			return nil, withID(specs, e.id, err)
		}
	}
	name := func(id string, err error) error { return withID(specs, id, err) }
	if err := s.parse(ctx, tx, current.withNewStatement(specs), name); err != nil {
		return nil, err
	}
	return specs, s.normalize(ctx, tx, specs)
}

// withNewStatement returns the specs whose statement differs. A statement that stays may have broken meanwhile. It does
// not keep its schedule from being paused or changed.
func (l locked) withNewStatement(specs []Spec) []Spec {
	return slices.DeleteFunc(slices.Clone(specs), func(spec Spec) bool {
		return spec.Act.statement() == l[spec.ID].Act.statement()
	})
}

// checked returns the normal form of a spec. It lets each pause pass: this binary may not know the time zone or crontab
// of the schedule, or refuse what SQL has written. It keeps a payload that another machine has accepted.
func (s *Store) checked(spec, was Spec) (Spec, error) {
	pausing := was
	if pausing.Paused = true; spec.same(pausing) {
		return pausing, nil
	}
	most := s.cfg.MaxPayload
	if bytes.Equal(spec.Payload, was.Payload) {
		most = max(most, len(was.Payload))
	}
	normal, _, err := spec.normal(most)
	return normal, err
}

// normalize replaces payloads by the form that the database stores, so that equal payloads compare
// equal.
func (s *Store) normalize(ctx context.Context, tx jobs.DB, specs []Spec) error {
	payloads := make(pq.StringArray, len(specs))
	for i, spec := range specs {
		payloads[i] = string(spec.Payload)
	}
	normal, err := collect(ctx, s, tx, pg.ScheduleNormal, []any{payloads}, text)
	if err != nil {
		return err
	}
	for i := range normal {
		specs[i].Payload = nil
		if normal[i] != "" {
			specs[i].Payload = json.RawMessage(normal[i])
		}
	}
	return nil
}

// changes holds what a transaction writes.
type changes struct {
	specs  []Spec
	acts   []Spec         // those of specs whose statement changes
	move   []jobs.Request // new rows, which wait for another instant
	cancel []string       // the rows of these end
	states stateChanges   // the states of those rows, and dropped instants
}

// plan adds the changes from one version of a schedule to another. If the instants stay the same,
// the waiting row stays too. An unchanged schedule that has lost its row gets a new one.
func (s *Store) plan(c *changes, was Schedule, spec Spec, now time.Time) error {
	lost := lostRow(was, now)
	if spec.same(was.Spec) && !lost {
		return nil
	}
	c.specs = append(c.specs, spec)
	if spec.Act.statement() != was.Act.statement() {
		c.acts = append(c.acts, spec)
	}
	kept := was
	kept.MaxRuns = spec.MaxRuns // events are counted as long as there is a limit
	switch {
	case spec.Paused && (was.State == Active || was.MaxRuns > 0 && spec.MaxRuns == 0):
		c.cancel = append(c.cancel, was.ID)
		c.states.add(was.ID, overdue(was, now), kept.known())
	case !spec.Paused && (was.Paused || lost || !spec.sameTimeline(was.Spec)):
		row, err := s.prepare(&spec, kept.known(), grid.Later(now, ahead(was, lost)))
		if err != nil {
			return err
		}
		c.move = append(c.move, *row)
		if n := overdue(was, now); n > 0 {
			c.states.add(was.ID, n, cursor{})
		}
	}
	return nil
}

// lostRow tells whether a schedule that is not paused has instants to come, but no row that waits
// for them.
func lostRow(was Schedule, now time.Time) bool {
	if was.State != Ended || was.Paused || was.MaxRuns > 0 && was.Runs >= int64(was.MaxRuns) {
		return false
	}
	c, err := was.instants()
	if err != nil {
		return false
	}
	_, ok := c.Next(grid.Later(now, was.Last))
	return ok
}

// ahead returns the instant after which a lost row goes on, in case the clock was ahead when that
// instant was published.
func ahead(was Schedule, lost bool) time.Time {
	if !lost {
		return time.Time{}
	}
	return was.Last
}

// overdue counts the instants up to now that a schedule has yet to publish. A change drops them.
func overdue(was Schedule, now time.Time) int64 {
	if was.State != Active || was.Next.IsZero() || was.Next.After(now) {
		return 0
	}
	c, err := was.instants()
	if err != nil {
		return 1 // there may be more
	}
	n := count(c, was.Next.Add(-time.Second), now)
	if was.MaxRuns > 0 {
		n = min(n, int64(was.MaxRuns)-was.Runs)
	}
	return n
}

// write writes changes of locked schedules. A moved row is a new row, so a run that has read the
// old one finds it gone.
func (s *Store) write(ctx context.Context, tx jobs.DB, c changes) error {
	if len(c.specs) == 0 {
		return nil
	}
	if err := s.setActs(ctx, tx, c.acts); err != nil {
		return err
	}
	var at sql.NullTime
	var by sql.NullString
	if slices.ContainsFunc(c.specs, func(s Spec) bool { return s.Paused }) {
		if err := pg.One(ctx, tx, pg.SchedulePauser.In(s.schema), nil, &at, &by); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, pg.ScheduleUpdate.In(s.schema), append(columns(c.specs), at, by)...); err != nil {
		return err
	}
	if len(c.cancel) > 0 {
		var n int64
		if err := pg.One(ctx, tx, pg.ScheduleCancel.In(s.schema),
			[]any{pq.StringArray(c.cancel)}, &n); err != nil {
			return err
		}
	}
	if err := c.states.write(ctx, tx, s.schema); err != nil {
		return err
	}
	return s.enqueue(ctx, tx, c.move, jobs.Replace)
}
