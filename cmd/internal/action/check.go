package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// maxText bounds a name or a key, in bytes.
const maxText = 500

// CheckText refuses a text that cannot be a name or a key.
func CheckText(field, text string) error {
	if text == "" || len(text) > maxText || strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return &jobs.FieldError{Field: field, Message: fmt.Sprintf("must be 1 to %d bytes of UTF-8 without a NUL", maxText)}
	}
	return nil
}

// CheckInstant refuses an instant that no check can have, or that JSON or PostgreSQL cannot
// represent. Zero: left out.
func CheckInstant(field string, at time.Time) error {
	if !at.IsZero() && (at.Before(grid.Min()) || at.After(grid.Max())) {
		return &jobs.FieldError{Field: field, Message: fmt.Sprintf("must be from %s to %s",
			grid.Min().Format(time.DateOnly), grid.Max().Format(time.DateOnly))}
	}
	return nil
}

// CheckWords is CheckText for optional texts.
func CheckWords(list ...string) error {
	for _, text := range list {
		if text != "" {
			if err := CheckText("a name or key", text); err != nil {
				return err
			}
		}
	}
	return nil
}

// MostNames bounds the jobs of the database that are read to find one by its name.
const MostNames = 100_000

// RequireJob returns a RefusedError for a job that is not one of names, and that the database does not
// have. The error names similar jobs. An empty name matches any job.
func RequireJob(ctx context.Context, c *jobs.Client, db jobs.DB, names []string, job string) error {
	if job == "" || job == schedule.JobExec || slices.Contains(names, job) {
		return nil
	}
	known, err := admin.New(c).JobNames(ctx, db, MostNames)
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		return nil // an app's role may not read this
	}
	if err != nil || slices.Contains(known, job) {
		return err
	}
	return refusef("there is no job %s: neither this binary nor the database knows it%s",
		job, spoken.Meant(job, append(known, names...)))
}

// requireJob is RequireJob, and also takes a rule.
func (s *Store) requireJob(ctx context.Context, db jobs.DB, job string) error {
	err := RequireJob(ctx, s.Client, db, s.Jobs, job)
	if _, unknown := errors.AsType[*RefusedError](err); unknown {
		if s.isRule(ctx, job) {
			return nil
		}
	}
	return err
}

// isRule reports whether there is such a rule, and the login may read it. It reads outside the transaction, which an
// error would end.
func (s *Store) isRule(ctx context.Context, name string) bool {
	_, err := s.Rules.Get(ctx, name)
	return err == nil
}

// requireJob is Store.requireJob in the transaction.
func (tx Tx) requireJob(ctx context.Context, job string) error {
	return tx.Store.requireJob(ctx, tx.Tx, job)
}
