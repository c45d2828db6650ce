package schedule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/payload"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
)

// Spec is a schedule as its owner writes it.
type Spec struct {
	// ID is printable text of 1 to 200 bytes, but neither "." nor "..".
	ID string
	// Crontab gives the instants; see package crontab.
	Crontab string
	// Timezone is a name of the IANA database. Defaults to the zone that Crontab names, or UTC.
	Timezone string
	// Payload is in the data of every event, see Occurrence. It is any JSON value, or nil.
	Payload json.RawMessage
	// Act tells what the schedule does at each instant. The zero Act publishes an event.
	Act Act
	// KeepAct leaves Act unchanged if the schedule exists.
	KeepAct bool
	// Deadline drops an event that would be published more than this after the moment that
	// DeadlineFrom selects. Whole seconds. Defaults to 0: never.
	Deadline time.Duration
	// DeadlineFrom selects what Deadline counts from. Defaults to FromInstant if slots are at most
	// a minute wide, otherwise to FromSlot.
	DeadlineFrom DeadlineFrom
	// Spread delays all instants of the schedule by a fixed part of it, which a hash of the ID
	// chooses. So many schedules with the same crontab share several slots. Whole seconds, up to 24
	// hours. Events keep their nominal time.
	Spread time.Duration
	// Misfire selects the instants of missed slots that are published. Defaults to All.
	Misfire Misfire
	// Anchor is the first instant of "@every", in whole seconds. Zero means Start or, if that is
	// zero too, the moment of creation. On an update, zero keeps the current anchor. Other crontabs
	// ignore it.
	Anchor time.Time
	// Start and End bound the instants to [Start, End). Whole seconds. Zero: no bound.
	Start, End time.Time
	// MaxRuns ends the schedule after that many events, counted since MaxRuns was set. Defaults to
	// 0: no limit.
	MaxRuns int
	// Exclude leaves out instants: holidays, days of the week, minutes of other crontabs; see
	// crontab.Crontab.Except. At most 100.
	Exclude []string
	// Paused stops the events of the schedule.
	Paused bool
	// KeepPaused leaves Paused unchanged if the schedule exists.
	KeepPaused bool
}

// Misfire selects the instants of missed slots that are published.
type Misfire string

// The policies.
const (
	// All publishes every missed instant, but at most the newest MaxCatchUp.
	All Misfire = "all"
	// Latest publishes only the newest missed instant.
	Latest Misfire = "latest"
	// Skip publishes none.
	Skip Misfire = "skip"
)

// DeadlineFrom selects the instant that a deadline counts from.
type DeadlineFrom string

// The instants that a deadline can count from.
const (
	// FromInstant is the nominal instant, delayed by the schedule's part of its spread.
	FromInstant DeadlineFrom = "instant"
	// FromSlot is the slot that publishes the instant: the first one at or after it.
	FromSlot DeadlineFrom = "slot"
)

// MaxCatchUp is how many missed instants the policy All publishes at most.
const MaxCatchUp = 100

// State says whether a schedule is active, paused or has ended.
type State string

// The states.
const (
	// Active schedules wait for their next instant.
	Active State = "active"
	// Paused schedules wait for Resume.
	Paused State = "paused"
	// Ended schedules have no further instant, or their row of future_job was cancelled.
	Ended State = "ended"
)

// Schedule is a schedule as it is stored.
type Schedule struct {
	Spec
	// Version starts at 1 and rises by one with each change.
	Version int
	State   State
	// Next is the nominal instant that is published next, and Slot the slot that publishes it, in
	// UTC. Both are zero unless the schedule is Active.
	Next, Slot time.Time
	// Last is the nominal instant that was published last, in UTC. Zero: none.
	Last time.Time
	// Runs is how many events were published since MaxRuns was set. 0 without MaxRuns.
	Runs int64
	// Rows is how many rows the statement of Act.SQL has changed or returned at the last instant. 0 without one.
	Rows int64
	// Dropped counts the events that were not published; see the package documentation.
	Dropped int64
	// ErrorCount is the number of consecutive slots in which publishing failed. LastError is the
	// last error.
	ErrorCount int
	LastError  string
	// PublishingPausedAt is when the job "schedule" was paused, in UTC. Until that job is resumed,
	// no schedule publishes. Zero: it is not paused.
	PublishingPausedAt time.Time
	// PausedAt is when the schedule was paused, in UTC. Zero: it is not paused.
	PausedAt time.Time
	// PausedBy is the actor who paused it (see jobs.SetActor) or, without one, the database role.
	PausedBy string
	// CreatedAt and UpdatedAt use the database's clock, in UTC.
	CreatedAt, UpdatedAt time.Time
}

// The errors of a Store.
var (
	// ErrNotFound is returned for an id that no schedule has.
	ErrNotFound = errors.New("there is no such schedule")
	// ErrExists is returned for a new schedule whose id is taken.
	ErrExists = errors.New("there is a schedule of this id")
	// ErrVersion is returned for a change of a version that is not the current one.
	ErrVersion = errors.New("the schedule has another version: it was changed meanwhile")
)

const (
	maxID      = 200
	maxSpread  = 24 * time.Hour
	maxExclude = 100
	// maxText bounds a crontab, a time zone, and each pattern of exclude, in bytes.
	maxText = 2000
	maxRuns = math.MaxInt32
)

// normal returns a Spec with its defaults, in the resolution of the database, and its crontab. The
// error joins a jobs.FieldError for each wrong field. normal does not check the id: that of a
// schedule that exists may be one that SQL takes and checkID refuses.
func (s Spec) normal(maxPayload int) (Spec, crontab.Crontab, error) {
	s.Misfire = cmp.Or(s.Misfire, All)
	s.Anchor, s.Start, s.End = s.Anchor.UTC(), s.Start.UTC(), s.End.UTC()
	err := errors.Join(checkText("crontab", s.Crontab), checkText("timezone", s.Timezone), s.checkExclude())
	var parsed crontab.Crontab
	if err == nil {
		parsed, err = s.instants()
	}
	if bytes.Equal(bytes.TrimSpace(s.Payload), []byte("null")) {
		s.Payload = nil
	}
	return s, parsed, errors.Join(err, checkPayload(s.Payload, maxPayload), s.Act.check(s.Payload),
		s.checkTimes(), s.checkBounds(), s.checkWords())
}

func checkPayload(text json.RawMessage, most int) error {
	if problem := payload.Problem(text, most); problem != "" {
		return &jobs.FieldError{Field: "payload", Message: problem}
	}
	return nil
}

// instants returns the instants of a schedule. The error is a jobs.FieldError.
func (s Spec) instants() (crontab.Crontab, error) {
	// any anchor will do until it is known
	parsed, err := crontab.Parse(s.Crontab, s.Timezone, grid.Later(s.Anchor, grid.Min()))
	if err != nil {
		return parsed, &jobs.FieldError{Field: "crontab", Message: err.Error()}
	}
	if len(s.Exclude) > 0 {
		zone, err := crontab.Zone(s.Crontab, s.Timezone)
		if err == nil {
			parsed, err = parsed.Except(s.Exclude, zone)
		}
		if err != nil {
			return parsed, &jobs.FieldError{Field: "exclude", Message: err.Error()}
		}
	}
	return parsed.Within(s.Start, s.End), nil
}

func checkID(id string) error {
	field := func(rule string) error { return &jobs.FieldError{Field: "id", Message: rule} }
	switch {
	case id == "":
		return field("must not be empty")
	case id == "." || id == "..":
		return field("must not be . or .., which in the path of a URL mean another")
	case len(id) > maxID:
		return field(fmt.Sprintf("must be at most %d bytes, is %d", maxID, len(id)))
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return field("must be printable text in UTF-8")
	case strings.TrimSpace(id) != id:
		return field("must not begin or end with a space")
	}
	return nil
}

// checkText refuses text that the database cannot store. A crontab may contain tabs.
func checkText(field, text string) error {
	if len(text) > maxText {
		return &jobs.FieldError{Field: field, Message: fmt.Sprintf("must be at most %d bytes, is %d", maxText, len(text))}
	}
	return checkEncoding(field, text)
}

func checkEncoding(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return &jobs.FieldError{Field: field, Message: "must be valid UTF-8 without NUL"}
	}
	return nil
}

func (s Spec) checkTimes() error {
	var errs []error
	field := func(name, rule string) { errs = append(errs, &jobs.FieldError{Field: name, Message: rule}) }
	if s.Deadline < 0 || s.Deadline%time.Second != 0 {
		field("deadline", "must be whole seconds, or 0 for none")
	}
	if s.Spread < 0 || s.Spread > maxSpread || s.Spread%time.Second != 0 {
		field("spread", "must be whole seconds, up to 24h")
	}
	for name, at := range map[string]time.Time{"anchor": s.Anchor, "start": s.Start, "end": s.End} {
		if !at.IsZero() && (at.Before(grid.Min()) || at.After(grid.Max()) || at.Nanosecond() != 0) {
			field(name, "must be an instant from 1970 to 9999 in whole seconds")
		}
	}
	return errors.Join(errs...)
}

func (s Spec) checkBounds() error {
	switch {
	case !s.Start.IsZero() && !s.End.IsZero() && !s.Start.Before(s.End):
		return &jobs.FieldError{Field: "end", Message: "must be after start"}
	case s.MaxRuns < 0 || s.MaxRuns > maxRuns:
		return &jobs.FieldError{Field: "max_runs", Message: fmt.Sprintf("must be from 1 to %d, or 0 for no limit", maxRuns)}
	}
	return nil
}

func (s Spec) checkExclude() error {
	if len(s.Exclude) > maxExclude {
		return &jobs.FieldError{Field: "exclude", Message: fmt.Sprintf("must be at most %d, are %d",
			maxExclude, len(s.Exclude))}
	}
	for _, pattern := range s.Exclude {
		if strings.ContainsAny(pattern, "\n\x00") {
			return &jobs.FieldError{Field: "exclude", Message: "must each be one line of text"}
		}
		if err := checkText("exclude", pattern); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) checkWords() error {
	var errs []error
	if s.Misfire != All && s.Misfire != Latest && s.Misfire != Skip {
		errs = append(errs, &jobs.FieldError{Field: "misfire", Message: "must be all, latest or skip"})
	}
	if s.DeadlineFrom != "" && s.DeadlineFrom != FromInstant && s.DeadlineFrom != FromSlot {
		errs = append(errs, &jobs.FieldError{
			Field:   "deadline_from",
			Message: "must be instant or slot, or empty for what suits the width",
		})
	}
	return errors.Join(errs...)
}

// after returns a spec that replaces was. Unset fields keep their current values.
func (s Spec) after(was Spec) Spec {
	if s.Anchor.IsZero() {
		s.Anchor = was.Anchor
	}
	if s.KeepPaused {
		s.Paused, s.KeepPaused = was.Paused, false
	}
	if s.KeepAct {
		s.Act, s.KeepAct = was.Act, false
	}
	return s
}

// sameTimeline reports whether two specs give the same instants in the same slots.
func (s Spec) sameTimeline(o Spec) bool {
	return s.Crontab == o.Crontab && s.Timezone == o.Timezone && s.Spread == o.Spread && s.Anchor.Equal(o.Anchor) &&
		s.Start.Equal(o.Start) && s.End.Equal(o.End) && s.MaxRuns == o.MaxRuns && slices.Equal(s.Exclude, o.Exclude)
}

// same reports whether two specs are equal. Their payloads must be as the database writes them.
func (s Spec) same(o Spec) bool {
	return s.ID == o.ID && s.sameTimeline(o) && bytes.Equal(s.Payload, o.Payload) && s.Deadline == o.Deadline &&
		s.DeadlineFrom == o.DeadlineFrom && s.Misfire == o.Misfire && s.Paused == o.Paused && s.Act == o.Act
}
