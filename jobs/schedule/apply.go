package schedule

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
)

// Action says what Apply does with a schedule.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// ApplyOptions limits what Apply may do. With the zero value it creates and updates, and deletes
// nothing.
type ApplyOptions struct {
	// Prune deletes the schedules that are not given.
	Prune bool
	// MaxDeletes is how many schedules Prune may delete. For more, Apply returns a *PruneError and
	// changes nothing. Defaults to 0: any number.
	MaxDeletes int
	// DryRun writes nothing.
	DryRun bool
	// Changed is called for each schedule that differs, in the order of the input. Then it is
	// called for each deleted schedule, sorted by id. If Apply returns an error, nothing was
	// changed. Optional.
	Changed func(id string, action Action)
}

// ApplyResult counts what Apply did.
type ApplyResult struct {
	Created, Updated, Deleted, Unchanged int
}

// PruneError says that Prune would have deleted more schedules than MaxDeletes.
type PruneError struct {
	Deletes, MaxDeletes int
}

// Error names both numbers.
func (e *PruneError) Error() string {
	return fmt.Sprintf("%s not given and would be deleted, more than the %d that may be",
		spoken.Count(e.Deletes, "schedule is", "schedules are"), e.MaxDeletes)
}

// Apply makes the schedules of the database equal to the given ones: it creates and updates
// schedules, and leaves equal ones alone. A zero Anchor keeps the current anchor of a schedule. See
// also Spec.KeepPaused.
//
// It reads the input once, in one transaction and bounded memory: some 50 bytes for each schedule,
// which find an id that is given twice. It returns an error of the input unchanged, and a deadlock
// with another session as an error. In both cases the database is unchanged.
func (s *Store) Apply(
	ctx context.Context, db jobs.DB, all iter.Seq2[Spec, error], o ApplyOptions,
) (ApplyResult, error) {
	if all == nil { // not an empty file, by which Prune would delete every schedule
		return ApplyResult{}, errors.New("apply schedules: the sequence is nil")
	}
	if o.Changed == nil {
		o.Changed = func(string, Action) {}
	}
	a := &applyCall{store: s, ApplyOptions: o, given: map[fingerprint]struct{}{}}
	err := once(ctx, db, func(tx jobs.DB) error {
		a.tx = tx
		return a.all(ctx, all)
	})
	switch {
	case a.err != nil:
		return ApplyResult{}, a.err
	case err != nil:
		return ApplyResult{}, fmt.Errorf("apply schedules: %w", err)
	}
	return a.done, nil
}

// applyCall is one call of Apply.
type applyCall struct {
	ApplyOptions
	store *Store
	tx    jobs.DB
	given map[fingerprint]struct{}
	done  ApplyResult
	err   error // of the input
}

// fingerprint stands for an id in less memory.
type fingerprint [16]byte

func fingerprintOf(id string) fingerprint {
	sum := sha256.Sum256([]byte(id))
	return fingerprint(sum[:16])
}

func (a *applyCall) all(ctx context.Context, all iter.Seq2[Spec, error]) error {
	page := make([]Spec, 0, bulk)
	for spec, err := range all {
		if err != nil {
			a.err = err
			return err
		}
		if page = append(page, spec); len(page) == bulk {
			if err := a.page(ctx, page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if err := a.page(ctx, page); err != nil || !a.Prune {
		return err
	}
	return a.prune(ctx)
}

// page creates and updates schedules.
func (a *applyCall) page(ctx context.Context, specs []Spec) error {
	if len(specs) == 0 {
		return nil
	}
	ids, err := a.check(ctx, specs)
	if err != nil {
		return err
	}
	current, err := a.current(ctx, ids)
	if err != nil {
		return err
	}
	if err := a.store.parse(ctx, a.tx, current.withNewStatement(specs), ofSchedule); err != nil {
		return err
	}
	now, err := a.store.now(ctx, a.tx) // after the lock, as in change
	if err != nil {
		return err
	}
	var c changes
	var created []Spec
	for _, spec := range specs {
		was, exists := current[spec.ID]
		if !exists {
			created = append(created, spec)
		}
		if err := a.compare(&c, was, exists, spec, now); err != nil {
			return err
		}
	}
	if a.DryRun {
		return nil
	}
	if err := a.store.write(ctx, a.tx, c); err != nil {
		return err
	}
	return a.store.create(ctx, a.tx, created)
}

// check normalizes schedules for the comparison with those of the database, and returns their ids.
func (a *applyCall) check(ctx context.Context, specs []Spec) (ids []string, err error) {
	for i, spec := range specs {
		key := fingerprintOf(spec.ID)
		if _, twice := a.given[key]; twice {
			return nil, &jobs.FieldError{Field: "id", Message: fmt.Sprintf("%q is given twice", spec.ID)}
		}
		a.given[key] = struct{}{}
		specs[i], _, err = spec.normal(a.store.cfg.MaxPayload)
		if err = errors.Join(checkText("id", spec.ID), err); err != nil {
			return nil, fmt.Errorf("schedule %q: %w", spec.ID, err)
		}
		ids = append(ids, spec.ID)
	}
	return ids, a.store.normalize(ctx, a.tx, specs)
}

// ofSchedule adds an ID to an error.
func ofSchedule(id string, err error) error { return fmt.Errorf("schedule %q: %w", id, err) }

// current returns the schedules that exist. It locks them, except in a dry run.
func (a *applyCall) current(ctx context.Context, ids []string) (locked, error) {
	if !a.DryRun {
		return a.store.lock(ctx, a.tx, ids)
	}
	list, err := a.store.list(ctx, a.tx, Filter{Limit: len(ids)}, pq.StringArray(ids), nil)
	all := locked{}
	for _, s := range list {
		all[s.ID] = s
	}
	return all, err
}

// compare decides what to do with a schedule, and adds it to c if it is an update.
func (a *applyCall) compare(c *changes, was Schedule, exists bool, spec Spec, now time.Time) error {
	if !exists {
		if _, err := a.store.prepareNew(&spec, now); err != nil {
			return fmt.Errorf("%s schedule %q: %w", Create, spec.ID, err)
		}
		a.done.Created++
		a.Changed(spec.ID, Create)
		return nil
	}
	n := len(c.specs)
	if err := a.store.plan(c, was, spec.after(was.Spec), now); err != nil {
		return fmt.Errorf("%s schedule %q: %w", Update, spec.ID, err)
	}
	if len(c.specs) == n {
		a.done.Unchanged++
		return nil
	}
	a.done.Updated++
	a.Changed(spec.ID, Update)
	return nil
}

// prune deletes the schedules that were not given.
func (a *applyCall) prune(ctx context.Context) error {
	ids, err := a.notGiven(ctx)
	if err != nil {
		return err
	}
	if a.MaxDeletes > 0 && len(ids) > a.MaxDeletes && !a.DryRun {
		return &PruneError{len(ids), a.MaxDeletes}
	}
	a.done.Deleted = len(ids)
	for _, id := range ids {
		a.Changed(id, Delete)
	}
	if a.DryRun {
		return nil
	}
	for chunk := range slices.Chunk(ids, bulk) {
		if _, err := a.store.lock(ctx, a.tx, chunk); err != nil {
			return err
		}
		if err := a.store.remove(ctx, a.tx, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (a *applyCall) notGiven(ctx context.Context) (ids []string, err error) {
	for after := ""; ; {
		page, err := collect(ctx, a.store, a.tx, pg.ScheduleIDs, []any{after, bulk}, text)
		if err != nil || len(page) == 0 {
			return ids, err
		}
		for _, id := range page {
			if _, given := a.given[fingerprintOf(id)]; !given {
				ids = append(ids, id)
			}
		}
		after = page[len(page)-1]
	}
}
