package schedule

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/jobs"
)

// Change is one of the changes of ChangeAll.
type Change struct {
	// Action is Create, Update or Delete.
	Action Action
	// Spec is the new content of the schedule. Delete needs only the ID.
	Spec Spec
	// Version is the version that the caller has read; see Update. Create ignores it.
	Version int
}

// ChangeAll makes changes of different schedules in one transaction. It deletes first, then
// updates, then creates. Each change works as the method of its name. If one fails, ChangeAll
// returns its error and makes none.
func (s *Store) ChangeAll(ctx context.Context, db jobs.DB, changes []Change) error {
	err := inTx(ctx, db, func(tx jobs.DB) error {
		p, err := newChangeSet(changes)
		if err == nil {
			err = s.removeAll(ctx, tx, p.remove)
		}
		if err == nil && len(p.edit) > 0 {
			err = s.change(ctx, tx, p.edit)
		}
		if err == nil {
			err = s.create(ctx, tx, p.create)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("change schedules: %w", err)
	}
	return nil
}

// changeSet holds changes by kind.
type changeSet struct {
	create []Spec
	edit   []edit
	remove []Change
}

func newChangeSet(changes []Change) (p changeSet, err error) {
	seen := make(map[string]bool, len(changes))
	for _, c := range changes {
		if seen[c.Spec.ID] {
			return p, &jobs.FieldError{Field: "id", Message: fmt.Sprintf("%q is given twice", c.Spec.ID)}
		}
		seen[c.Spec.ID] = true
		switch c.Action {
		case Create:
			p.create = append(p.create, c.Spec)
		case Update:
			p.edit = append(p.edit, edit{c.Spec.ID, c.Version, func(Spec) (Spec, error) { return c.Spec, nil }})
		case Delete:
			p.remove = append(p.remove, c)
		default:
			return p, &jobs.FieldError{Field: "action", Message: "must be create, update or delete"}
		}
	}
	return p, nil
}

// removeAll deletes schedules of the given versions.
func (s *Store) removeAll(ctx context.Context, tx jobs.DB, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	ids := make([]string, len(changes))
	for i, c := range changes {
		ids[i] = c.Spec.ID
	}
	current, err := s.lock(ctx, tx, ids)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if _, err := current.find(c.Spec.ID, c.Version); err != nil && len(changes) > 1 {
			return fmt.Errorf("schedule %q: %w", c.Spec.ID, err)
		} else if err != nil {
			return err
		}
	}
	return s.remove(ctx, tx, ids)
}
