package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
)

// Guards are the rules of one executable, as the options of a registered job are. Start from DefaultGuards.
type Guards struct {
	// MaxChecks limits the checks, from 1 up; when the last one asks for another it ends as jobs.TooManyChecks.
	MaxChecks int `json:"max_checks"`
	// Timeout ends a check, with SIGTERM to its process group and SIGKILL after the grace period. More than 0.
	Timeout duration.Text `json:"timeout"`
	// Horizon limits how far ahead of now the next check may be. More than 0.
	Horizon duration.Text `json:"horizon"`
	// Retry is how many errors in a row are tried again, 1, 2, 4 ... slots later. 0: the first ends it.
	Retry int `json:"retry"`
	// Deadline ends it unchecked when a check cannot start within that long after its slot. 0: none.
	Deadline duration.Text `json:"deadline"`
	// Misfire is what catch-up does with it.
	Misfire jobs.Misfire `json:"misfire"`
}

// DefaultGuards are those of an executable that has no others: the defaults of a registered job.
func DefaultGuards() Guards {
	return Guards{
		MaxChecks: jobs.DefaultMaxChecks, Timeout: duration.Text(jobs.DefaultTimeout), Horizon: duration.Text(jobs.DefaultHorizon),
		Retry: jobs.DefaultRetry, Misfire: jobs.MisfireRun,
	}
}

// definition is a job with these guards, and the defaults of a registered one in everything else.
func (g Guards) definition(name string) *jobs.Definition {
	return &jobs.Definition{
		Name: name, MaxChecks: g.MaxChecks, Timeout: time.Duration(g.Timeout), Horizon: time.Duration(g.Horizon),
		Retry: g.Retry, MaxBackOff: jobs.DefaultMaxBackOff, Deadline: time.Duration(g.Deadline), Misfire: g.Misfire,
	}
}

// validate returns a jobs.FieldError for the first guard that makes no sense.
func (g Guards) validate() error {
	switch {
	case g.MaxChecks < 1:
		return &jobs.FieldError{Field: "max_checks", Rule: "must be at least 1"}
	case g.Timeout <= 0:
		return &jobs.FieldError{Field: "timeout", Rule: "must be more than 0"}
	case g.Horizon <= 0:
		return &jobs.FieldError{Field: "horizon", Rule: "must be more than 0"}
	case g.Retry < 0:
		return &jobs.FieldError{Field: "retry", Rule: "must not be negative"}
	case g.Deadline < 0:
		return &jobs.FieldError{Field: "deadline", Rule: "must not be negative; 0 is none"}
	case g.Misfire != jobs.MisfireRun && g.Misfire != jobs.MisfireDefer && g.Misfire != jobs.MisfireSkip:
		return &jobs.FieldError{Field: "misfire", Rule: "must be run, defer or skip"}
	}
	return nil
}

// Job is what a spool knows about an executable. While it waits this is in its sidecar, where a key that is missing
// has its default.
type Job struct {
	// AddedAt and FirstSlot are zero for an executable that was not put there by Add.
	AddedAt   time.Time `json:"added_at,omitzero"`
	FirstSlot time.Time `json:"first_slot,omitzero"`
	// CheckCount is the number of checks that ended without an error, ErrorCount that of errors in a row since.
	CheckCount int    `json:"check_count"`
	ErrorCount int    `json:"error_count"`
	LastError  string `json:"last_error"`
	// Spent is the run time of all checks.
	Spent duration.Text `json:"spent"`
	// StartedAt and Runner are of the last check: one that is running, or was when its runner died.
	StartedAt time.Time `json:"started_at,omitzero"`
	Runner    string    `json:"runner,omitempty"`
	Guards
}

func parseJob(text []byte) (Job, error) {
	j := Job{Guards: DefaultGuards()}
	if err := json.Unmarshal(text, &j); err != nil {
		return Job{}, err
	}
	if j.CheckCount < 0 || j.ErrorCount < 0 || j.Spent < 0 {
		return Job{}, &jobs.FieldError{Field: "check_count, error_count and spent", Rule: "must not be negative"}
	}
	return j, j.validate()
}

// The sidecar of NAME is .NAME.json; while it is being written, .NAME.json~.
func sidecar(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".json")
}

// isSidecar tells whether a file is a sidecar, or one whose writer was killed.
func isSidecar(name string) bool {
	name = strings.TrimSuffix(name, "~")
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".json") && len(name) > len("..json")
}

// ownerOf returns the name of the executable that a sidecar belongs to.
func ownerOf(sidecar string) string {
	return strings.TrimSuffix(strings.TrimSuffix(sidecar, "~"), ".json")[1:]
}

// readJob reads the sidecar of an executable. One without has defaults.
func readJob(path string) (Job, error) {
	text, err := readFile(sidecar(path))
	if errors.Is(err, fs.ErrNotExist) {
		return Job{Guards: DefaultGuards()}, nil
	}
	if err != nil {
		return Job{}, err
	}
	j, err := parseJob(text)
	if err != nil {
		return Job{}, fmt.Errorf("read %s: %w; correct it, or remove it for the defaults", sidecar(path), err)
	}
	return j, nil
}
