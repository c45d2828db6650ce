package event

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/strictjson"
	"github.com/prescient-go/prescient/internal/uri"
)

// Event says that something happened, or that an instant has come. ID and Type must be set.
type Event struct {
	// ID is the same whenever the event is published again. Of a schedule: "<schedule>-<unix
	// seconds of Time>".
	ID string
	// Source is a URI reference that names the producer. IDs are unique within a source. An outbox gives an event
	// without a source that of its store: "prescient:/" and the uuid of the store. A destination needs one.
	Source string
	// Type says what happened. It begins with a domain of yours in reverse, as CloudEvents advises, such as
	// "com.example.order.unshipped".
	Type string
	// Subject names the thing that the event is about, such as the id of the schedule. Events of one subject are
	// published in order; those without one are in none.
	Subject string
	// Time is the nominal instant of the event: of a schedule, the one the crontab gives, not when
	// it was published. Zero: not known.
	Time time.Time
	// PublishedAt is when the event was published, by the database's clock. Zero: not known.
	PublishedAt time.Time
	// Data is any JSON value, or nil.
	Data json.RawMessage
}

// maxAttribute bounds ID, Source, Type and Subject, in bytes.
const maxAttribute = 1000

// Validate returns every rule of CloudEvents that an event breaks, each with the name of the
// attribute. ID, Source, Type and Subject are at most 1000 bytes of text.
func (e Event) Validate() error {
	return errors.Join(
		checkText("id", e.ID, true), checkText("source", e.Source, true), checkReference(e.Source),
		checkText("type", e.Type, true),
		checkText("subject", e.Subject, false), checkTime("time", e.Time), checkTime("publishedat", e.PublishedAt),
		checkData(e.Data),
	)
}

// ValidateNew is Validate for an event that is written to an outbox: it may have no Source.
func (e Event) ValidateNew() error {
	e.Source = cmp.Or(e.Source, "/")
	return e.Validate()
}

func checkText(attribute, value string, required bool) error {
	switch {
	case strings.TrimSpace(value) == "" && (required || value != ""):
		return fmt.Errorf("%s: must not be empty or blank", attribute)
	case len(value) > maxAttribute:
		return fmt.Errorf("%s: must be at most %d bytes, is %d", attribute, maxAttribute, len(value))
	case isPrintableASCII(value):
		return nil
	case !utf8.ValidString(value):
		return fmt.Errorf("%s: must be valid UTF-8", attribute)
	case strings.ContainsFunc(value, isForbidden):
		return fmt.Errorf("%s: must not contain a control character (such as NUL or a line break) or a noncharacter",
			attribute)
	}
	return nil
}

// isPrintableASCII tells whether no character needs a closer look, as in most attributes.
func isPrintableASCII(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return true
}

// isForbidden tells whether CloudEvents forbids a character in an attribute.
func isForbidden(r rune) bool {
	return r < 0x20 || r >= 0x7F && r <= 0x9F || r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE
}

func checkReference(source string) error {
	if known := lastReference.Load(); source == "" || known != nil && *known == source {
		return nil // checkText has told that it is empty
	}
	if !uri.IsReference(source) {
		return errors.New(`source: must be a URI reference, such as "/orders" or "https://example.com/orders"`)
	}
	lastReference.Store(&source)
	return nil
}

// lastReference is the last source that was found to be a URI reference. Nearly all events of a process have the same.
var lastReference atomic.Pointer[string]

func checkTime(attribute string, at time.Time) error {
	if year := at.UTC().Year(); year < 0 || year > 9999 {
		return fmt.Errorf("%s: must be of a year from 0 to 9999, is of %d", attribute, year)
	}
	return nil
}

// maxNesting bounds how deep data is nested: that of a schedule has its payload in it, and is
// itself in an event, and that in a list.
const maxNesting = 6000

func checkData(data json.RawMessage) error {
	switch {
	case data == nil:
		return nil
	case !utf8.Valid(data):
		return errors.New("data: must be valid UTF-8")
	case !json.Valid(data):
		return errors.New("data: must be valid JSON")
	case len(data) > 2*maxNesting && strictjson.Deeper(data, maxNesting): // each level has two brackets
		return fmt.Errorf("data: must be nested at most %d levels deep", maxNesting)
	}
	return nil
}
