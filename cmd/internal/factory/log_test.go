package factory

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/config"
)

func TestTheLogSaysAnInstantAsCommandsDo(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, 3, 1, 14, 15, 0, 0, time.FixedZone("", 3600))
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		l := logs{err: &out, tail: &tail{}}
		l.open(config.Log{Level: "info", Format: format}, "").Info("x", "slot", slot)
		if !strings.Contains(strings.ReplaceAll(out.String(), `"`, ""), "2026-03-01T13:15:00Z") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
