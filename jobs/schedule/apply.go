package schedule

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// Action is what Apply does with a schedule.
type Action string

// The actions.
const (
	Create    Action = "create"
	Update    Action = "update"
	Delete    Action = "delete"
	Unchanged Action = "unchanged"
)

// Applied is what Apply did with one schedule.
type Applied struct {
	ID     string
	Action Action
}

// Apply makes the schedules of the database equal to a list: it creates, updates and deletes, and leaves alone those
// that are the same. With dryRun it only says what it would do. The result is in the order of the ids. A zero Anchor
// stands for the one that the schedule has.
func (s *Store) Apply(ctx context.Context, db jobs.DB, specs []Spec, dryRun bool) (applied []Applied, err error) {
	err = inTx(ctx, db, func(tx jobs.DB) error {
		wanted, err := s.wanted(ctx, tx, specs)
		if err != nil {
			return err
		}
		if applied, err = s.compare(ctx, tx, wanted); err != nil || dryRun {
			return err
		}
		return s.apply(ctx, tx, wanted, applied)
	})
	if err != nil {
		return nil, fmt.Errorf("apply schedules: %w", err)
	}
	return applied, nil
}

// wanted checks the specs and returns them by id, fit to be compared with those of the database.
func (s *Store) wanted(ctx context.Context, tx jobs.DB, specs []Spec) (map[string]Spec, error) {
	wanted := make(map[string]Spec, len(specs))
	for chunk := range slices.Chunk(slices.Clone(specs), bulk) {
		for i, spec := range chunk {
			if _, twice := wanted[spec.ID]; twice {
				return nil, &jobs.FieldError{Field: "id", Rule: fmt.Sprintf("%q is given twice", spec.ID)}
			}
			normal, _, err := spec.normal(s.cfg.MaxPayload)
			if err != nil {
				return nil, fmt.Errorf("schedule %q: %w", spec.ID, err)
			}
			chunk[i], wanted[spec.ID] = normal, normal
		}
		if err := s.normalize(ctx, tx, chunk); err != nil {
			return nil, err
		}
		for _, spec := range chunk {
			wanted[spec.ID] = spec
		}
	}
	return wanted, nil
}

// compare says what is to be done. Of the errors that doing it may bring, it finds those of the new instants.
func (s *Store) compare(ctx context.Context, tx jobs.DB, wanted map[string]Spec) ([]Applied, error) {
	now, err := s.now(ctx, tx)
	if err != nil {
		return nil, err
	}
	var applied []Applied
	left := maps.Clone(wanted)
	page := make([]Schedule, bulk)
	for f := (Filter{Limit: bulk}); len(page) == bulk; {
		if page, err = s.List(ctx, tx, f); err != nil {
			return nil, err
		}
		for _, was := range page {
			spec, ok := left[was.ID]
			action, err := s.compareOne(was, spec, ok, now)
			if err != nil {
				return nil, fmt.Errorf("%s schedule %q: %w", action, was.ID, err)
			}
			applied = append(applied, Applied{was.ID, action})
			delete(left, was.ID)
			f.After = was.ID
		}
	}
	for id, spec := range left {
		if _, err := s.prepare(&spec, waiting{}, now); err != nil {
			return nil, fmt.Errorf("%s schedule %q: %w", Create, id, err)
		}
		applied = append(applied, Applied{id, Create})
	}
	slices.SortFunc(applied, func(a, b Applied) int { return cmp.Compare(a.ID, b.ID) })
	return applied, nil
}

// compareOne says what is to be done with a schedule that exists.
func (s *Store) compareOne(was Schedule, spec Spec, wanted bool, now time.Time) (Action, error) {
	if !wanted {
		return Delete, nil
	}
	var c changes
	if err := s.plan(&c, was, spec.after(was.Spec), now); err != nil || c.specs != nil {
		return Update, err
	}
	return Unchanged, nil
}

// apply does what compare has said.
func (s *Store) apply(ctx context.Context, tx jobs.DB, wanted map[string]Spec, applied []Applied) error {
	ids := map[Action][]string{}
	for _, a := range applied {
		ids[a.Action] = append(ids[a.Action], a.ID)
	}
	for chunk := range slices.Chunk(ids[Delete], bulk) {
		if _, err := s.lock(ctx, tx, chunk); err != nil {
			return err
		}
		if err := s.remove(ctx, tx, chunk); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(ids[Update], bulk) {
		edits := make([]edit, len(chunk))
		for i, id := range chunk {
			edits[i] = edit{id, AnyVersion, func(Spec) (Spec, error) { return wanted[id], nil }}
		}
		if err := s.change(ctx, tx, edits); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(ids[Create], bulk) {
		specs := make([]Spec, len(chunk))
		for i, id := range chunk {
			specs[i] = wanted[id]
		}
		if err := s.create(ctx, tx, specs); err != nil {
			return err
		}
	}
	return nil
}
