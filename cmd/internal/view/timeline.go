package view

import (
	"strings"

	"github.com/prescient-go/prescient/jobs/event/outbox"
)

// Told describes a message, and what became of it.
func Told(t outbox.Told) string {
	to := "message to " + t.Receiver
	last := ""
	if t.Error != "" {
		last = ". The last error: " + strings.Join(strings.Fields(t.Error), " ")
	}
	switch t.State {
	case outbox.ToldSent:
		return to + " sent"
	case outbox.ToldLater:
		return to + " is sent then, together with others"
	case outbox.ToldRefused:
		return to + " was refused, and is tried again" + last
	case outbox.ToldDead:
		return to + " is a dead letter, which is not sent" + last
	}
	return to + " written, and not sent yet" + last
}
