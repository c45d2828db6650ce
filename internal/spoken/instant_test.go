package spoken

import (
	"testing"
	"time"
)

func TestAnInstantIsSaidInOneFormWithItsDistanceFromNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 14, 5, 0, 0, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"0s": "now", "900ms": "now", "1s": "1 s ago", "119s": "119 s ago", "6m59s": "6 min ago", "119m": "119 min ago", "2h5m": "2 h ago",
		"47h": "47 h ago", "80h": "3 days ago", "2000h": "3 months ago", "-1s": "in 1 s", "-9m30s": "in 9 min", "-3h": "in 3 h", "-72h": "in 3 days",
	} {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Ago(now.Add(-d), now); got != want {
			t.Errorf("%s before: %q, want %q", text, got, want)
		}
	}
	if got := Since(now, now.Add(6*time.Minute)); got != "2026-03-01T13:05:00Z, 6 min ago" {
		t.Error(got)
	}
	if got := Instant(time.Time{}); got != "-" {
		t.Error(got)
	}
}

func TestADistanceMayBeLongerThanADuration(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		now.AddDate(7972, 0, 0): "in 7972 years", now.AddDate(-2000, 0, 0): "2000 years ago", now.AddDate(289, 0, 0): "in 289 years",
	} {
		if got := Ago(at, now); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	if got := Distance(now, now.Add(27*time.Hour)); got != "27h" {
		t.Error(got)
	}
	if got := Distance(now, now.AddDate(7972, 0, 0)); got != "7972 years" {
		t.Error(got)
	}
}
