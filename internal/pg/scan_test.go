package pg_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
)

func TestDestinationsTakeInstantsInUTCAndNull(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	instant, pointer, took := time.Time{}, (*time.Time)(nil), time.Duration(0)
	scan := func(instants, micros any) {
		t.Helper()
		for _, err := range []error{
			pg.UTC(&instant).Scan(instants), pg.UTC(&pointer).Scan(instants), pg.Micros(&took).Scan(micros),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	scan(at, int64(1500))
	if instant != at.UTC() || *pointer != at.UTC() || took != 1500*time.Microsecond {
		t.Errorf("an instant is %v and %v, and 1500 microseconds are %v", instant, *pointer, took)
	}
	scan(nil, nil)
	if instant != (time.Time{}) || pointer != nil || took != 0 {
		t.Errorf("null is %v, %v and %v", instant, pointer, took)
	}
	if pg.UTC(&instant).Scan("yesterday") == nil || pg.Micros(&took).Scan("long") == nil {
		t.Error("texts that are no instant and no number passed")
	}
}
