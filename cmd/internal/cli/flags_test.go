package cli

import (
	"strings"
	"testing"
	"time"
)

func TestAnInstantIsAnInstantADateOrHowLongAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text string
		want string // empty: refused
		ago  bool
	}{
		{text: "2026-03-01T13:05:00Z", want: "2026-03-01T13:05:00Z"},
		{text: "2026-03-01T13:05:00+02:00", want: "2026-03-01T11:05:00Z"},
		{text: "2026-03-01T13:05Z", want: "2026-03-01T13:05:00Z"},
		{text: "2026-03-01T13:05+02:00", want: "2026-03-01T11:05:00Z"},
		{text: "2026-03-01", want: "2026-03-01T00:00:00Z"},
		{text: "90m", ago: true, want: "2026-03-02T10:30:00Z"},
		{text: "7d", ago: true, want: "2026-02-23T12:00:00Z"},
		{text: "0", ago: true, want: "2026-03-02T12:00:00Z"},
		{text: "90m"},
		{text: ""},
		{text: "", ago: true},
		{text: "-1h", ago: true},
		{text: "2026-03-01 13:05", ago: true},
		{text: "2026-02-30"},
		{text: "0001-01-01", ago: true}, // Go's zero time
	} {
		i := Instant{Ago: c.ago}
		err := i.Set(c.text)
		if got := err == nil; got != (c.want != "") {
			t.Errorf("%q (ago %t): error %v", c.text, c.ago, err)
			continue
		}
		if got := i.From(now); err == nil && got.Format(time.RFC3339Nano) != c.want {
			t.Errorf("%q is %s, want %s", c.text, got, c.want)
		}
	}
}

func TestARefusedInstantIsToldWhatItLacks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-03-01T13:05":     "add Z for UTC",
		"2026-03-01T13:05:00":  "add Z for UTC",
		"2026-02-30":           "there is no such time: day out of range",
		"2026-02-30T12:00":     "there is no such time: day out of range",
		"2026-03-01T25:00:00Z": "there is no such time: hour out of range",
		"25:00":                "want an instant such as",
	} {
		if err := new(Instant).Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAnInstantThatIsNotGivenIsZero(t *testing.T) {
	t.Parallel()
	var i Instant
	if i.Given() || !i.From(time.Unix(1, 0)).IsZero() {
		t.Error("the zero instant is given")
	}
}
