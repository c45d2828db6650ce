package schedule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
)

// Spec is what the owner of a schedule says about it.
type Spec struct {
	// ID is printable text of 1 to 200 bytes.
	ID string
	// Crontab gives the instants; see package crontab.
	Crontab string
	// Timezone is a name of the IANA database. Empty: UTC, or the one that Crontab names.
	Timezone string
	// Payload is in the data of every event, see Occurrence: any JSON value, or nil.
	Payload json.RawMessage
	// Deadline drops an event that would be published later than that after its slot: whole seconds. 0: none is.
	Deadline time.Duration
	// Spread puts off all instants of the schedule by a fixed part of it, which a hash of the ID gives, so that many
	// schedules of the same crontab share several slots: whole seconds, up to 24 hours. Events keep their nominal time.
	Spread time.Duration
	// Misfire says which instants of missed slots are published. Empty: All.
	Misfire Misfire
	// Anchor is the first instant of "@every", in whole seconds. Zero: the moment of creation, and on an update what it
	// was before. Other crontabs ignore it.
	Anchor time.Time
	// Paused schedules publish nothing.
	Paused bool
}

// Misfire says which instants of missed slots are published.
type Misfire string

// The policies.
const (
	// All publishes every missed instant, but no more than the newest MaxMissed.
	All Misfire = "all"
	// Latest publishes the newest missed instant alone.
	Latest Misfire = "latest"
	// Skip publishes none.
	Skip Misfire = "skip"
)

// MaxMissed is how many missed instants the policy All publishes at the most.
const MaxMissed = 100

// State is what a schedule does.
type State string

// The states.
const (
	// Active schedules wait for their next instant.
	Active State = "active"
	// Paused schedules wait for Resume.
	Paused State = "paused"
	// Ended schedules have no instant any more, or their row of future_job was cancelled.
	Ended State = "ended"
)

// Schedule is a schedule as it is stored.
type Schedule struct {
	Spec
	// Version is 1 at first, and one more after each change.
	Version int
	State   State
	// Next is the nominal instant that is published next, and Slot the slot it waits for, in UTC. Zero unless Active.
	Next, Slot time.Time
	// Dropped counts the events that were not published; see the package documentation.
	Dropped int64
	// ErrorCount is the number of slots in a row in which publishing has failed, and LastError what it failed with last.
	ErrorCount int
	LastError  string
	// CreatedAt and UpdatedAt are by the database's clock, in UTC.
	CreatedAt, UpdatedAt time.Time
}

// The errors of a Store.
var (
	// ErrNotFound is returned for an id that no schedule has.
	ErrNotFound = errors.New("there is no such schedule")
	// ErrExists is returned for a new schedule whose id is taken.
	ErrExists = errors.New("there is a schedule of this id")
	// ErrVersion is returned for a change of a version that is not the current one.
	ErrVersion = errors.New("the schedule has another version: somebody has changed it meanwhile")
)

const (
	maxID     = 200
	maxSpread = 24 * time.Hour
)

// normal returns a Spec with its defaults, in the resolution of the database, and its crontab. The error joins a
// jobs.FieldError for each field that is wrong.
func (s Spec) normal(maxPayload int) (Spec, crontab.Crontab, error) {
	s.Misfire = cmp.Or(s.Misfire, All)
	s.Anchor = s.Anchor.UTC()
	anchor := s.Anchor
	if anchor.IsZero() {
		anchor = grid.Min // not known yet; any will do to check the rest
	}
	parsed, err := crontab.Parse(s.Crontab, s.Timezone, anchor)
	if err != nil {
		err = &jobs.FieldError{Field: "crontab", Rule: err.Error()}
	}
	if bytes.Equal(bytes.TrimSpace(s.Payload), []byte("null")) {
		s.Payload = nil
	}
	return s, parsed, errors.Join(checkID(s.ID), err, checkText("crontab", s.Crontab), checkText("timezone", s.Timezone),
		jobs.CheckPayload(s.Payload, maxPayload), s.checkTimes(), s.checkMisfire())
}

func checkID(id string) error {
	field := func(rule string) error { return &jobs.FieldError{Field: "id", Rule: rule} }
	switch {
	case id == "":
		return field("must not be empty")
	case len(id) > maxID:
		return field(fmt.Sprintf("must be at most %d bytes, is %d", maxID, len(id)))
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return field("must be printable text in UTF-8")
	case strings.TrimSpace(id) != id:
		return field("must not begin or end with a space")
	}
	return nil
}

// checkText refuses what the database cannot hold. A crontab may hold tabs.
func checkText(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return &jobs.FieldError{Field: field, Rule: "must be valid UTF-8 without NUL"}
	}
	return nil
}

func (s Spec) checkTimes() error {
	var errs []error
	field := func(name, rule string) { errs = append(errs, &jobs.FieldError{Field: name, Rule: rule}) }
	if s.Deadline < 0 || s.Deadline%time.Second != 0 {
		field("deadline", "must be whole seconds, or 0 for none")
	}
	if s.Spread < 0 || s.Spread > maxSpread || s.Spread%time.Second != 0 {
		field("spread", "must be whole seconds, up to 24h")
	}
	if s.Anchor.IsZero() {
		return errors.Join(errs...)
	}
	if s.Anchor.Before(grid.Min) || s.Anchor.After(grid.Max) || s.Anchor.Nanosecond() != 0 {
		field("anchor", "must be an instant from 1970 to 9999 in whole seconds")
	}
	return errors.Join(errs...)
}

func (s Spec) checkMisfire() error {
	if s.Misfire != All && s.Misfire != Latest && s.Misfire != Skip {
		return &jobs.FieldError{Field: "misfire", Rule: "must be all, latest or skip"}
	}
	return nil
}

// after returns a spec that replaces another one: what it does not say stays as it was.
func (s Spec) after(was Spec) Spec {
	if s.Anchor.IsZero() {
		s.Anchor = was.Anchor
	}
	return s
}

// sameTimeline tells whether two specs give the same instants in the same slots.
func (s Spec) sameTimeline(o Spec) bool {
	return s.Crontab == o.Crontab && s.Timezone == o.Timezone && s.Spread == o.Spread && s.Anchor.Equal(o.Anchor)
}

// same tells whether two specs say the same. Their payloads must be as the database writes them.
func (s Spec) same(o Spec) bool {
	return s.ID == o.ID && s.sameTimeline(o) && bytes.Equal(s.Payload, o.Payload) && s.Deadline == o.Deadline &&
		s.Misfire == o.Misfire && s.Paused == o.Paused
}
