// Package message describes messages to people: what the data of an event say that a receiver sends, such as Slack or a
// mail server. The rule or the command that has something to say writes the event into the outbox, in the transaction
// of its cause. A forwarder sends it, with package receiver.
package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"
)

// Prefix begins the type of each event that is a message. The name of the receiver follows. A destination gets such
// events only if its types name them.
const Prefix = "prescient.notify."

// Type returns the type of the events that a receiver gets.
func Type(receiver string) string { return Prefix + receiver }

// Consumer returns the name of the consumer of the outbox that a receiver is.
func Consumer(receiver string) string { return ConsumerPrefix + receiver }

// ConsumerPrefix begins the name of the consumer of each receiver. No destination has such a name.
const ConsumerPrefix = "receiver:"

// Message has the text that a receiver sends. The data of its event have these fields, and the fields of the cause.
type Message struct {
	// Text is the whole text. Its first line is the subject of a mail.
	Text string `json:"text"`
	// HTML is the same as a fragment of HTML, which a mail has beside the text. Empty: a mail has the text alone. Other
	// services do not get it.
	HTML string `json:"html,omitempty"`
	// To is a mail address, or what else the service takes as a recipient. Empty: that of the receiver.
	To string `json:"to,omitempty"`
	// SendAt is when the receiver sends the message, together with the other messages of that instant. Nil: at once,
	// alone.
	SendAt *time.Time `json:"send_at,omitempty"`
	// About is the same for a message that tells of a problem, and the one that tells that it is over. Empty: it is
	// the Source, # and ID of the event.
	About string `json:"about,omitempty"`
	// Over tells that the problem is over.
	Over bool `json:"over,omitempty"`
	// Quiet tells that no person is to be told: only a service that keeps incidents, such as PagerDuty, gets the message.
	Quiet bool `json:"quiet,omitempty"`
}

// CheckReceiver returns what is wrong with the name of a receiver. Empty: nothing.
func CheckReceiver(name string) string {
	odd := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_-", r) }
	if len(name) > 63 || strings.ContainsFunc(name, odd) {
		return fmt.Sprintf("%q: want the name of a receiver of the settings: lower-case letters, digits, _ and -", name)
	}
	return ""
}

// MaxText bounds the template of a text, in bytes.
const MaxText = 10_000

// At returns an instant as people read it in a message, by the clocks of a zone.
func At(at time.Time, zone *time.Location) string { return at.In(zone).Format("2006-01-02 15:04 MST") }

// Execute returns the text of a template, with a note if the template cannot be executed to its end. A nil template has
// no text.
func Execute(t *template.Template, values map[string]any) string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	if err := t.Execute(&b, values); err != nil {
		fmt.Fprintf(&b, " (%s: %v)", t.Name(), err)
	}
	return strings.TrimSpace(b.String())
}

// Plain returns a JSON value as the template of a text has it: in an object, a whole number is an int64, and null an
// empty text. It returns nil for no value.
func Plain(text json.RawMessage) any {
	var value any
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if len(text) == 0 || in.Decode(&value) != nil {
		return nil
	}
	fields, _ := value.(map[string]any)
	for name, field := range fields {
		switch v := field.(type) {
		case nil:
			fields[name] = ""
		case json.Number:
			if n, err := v.Int64(); err == nil {
				fields[name] = n
			}
		}
	}
	return value
}
