package output

import (
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

var (
	someHeader = table.Row{"FINISHED AT", "OUTCOME", Droppable("SLOT"), "JOB", Droppable("ENTITY"), "KEY", Droppable("CHECKS"), "LAST ERROR"}
	someError  = strings.Repeat("the warehouse does not answer: Lager schläft, 倉庫 ", 9)
)

func someRow() table.Row {
	at := time.Date(2026, 3, 1, 13, 15, 0, 0, time.UTC)
	return table.Row{at, "done", at, "order.unshipped", "order", "4711", 12, someError}
}

func TestATableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for width := 60; width < 600; width += 7 {
		got := formatTable(width, someHeader, someRow(), someRow())
		for line := range strings.Lines(got) {
			if n := text.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: %d wide: %s", width, n, line)
			}
		}
		if n := strings.Count(got, "2026-03-01T13:15:00Z"); n != 2 && n != 4 {
			t.Errorf("%d columns: an instant is cut:\n%s", width, got)
		}
	}
}

func TestANarrowTerminalLosesColumnsAndSaysWhich(t *testing.T) {
	t.Parallel()
	got := formatTable(80, someHeader, someRow())
	want := `FINISHED AT           OUTCOME  JOB              KEY   LAST ERROR
2026-03-01T13:15:00Z  done     order.unshipped  4711  the warehouse does not ...
(left out: SLOT, ENTITY, CHECKS; a wider terminal, a pipe and --output json have
them)`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAPipeGetsEverything(t *testing.T) {
	t.Parallel()
	got := formatTable(0, someHeader, someRow())
	if !strings.Contains(got, strings.TrimSpace(someError)) || !strings.Contains(got, "ENTITY") || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}

func TestALongValueIsWrappedBetweenWordsBesideItsLabel(t *testing.T) {
	t.Parallel()
	got := formatTable(40, nil, table.Row{"database", "shop on 10.0.0.5, schema prescient, PostgreSQL 15.18"}, table.Row{"next", 7})
	want := `database  shop on 10.0.0.5, schema
          prescient, PostgreSQL 15.18
next      7`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestACutTextKeepsItsEnd(t *testing.T) {
	t.Parallel()
	for width := 48; width < 300; width++ {
		got := Cut(someError+"Restart it", width)
		if text.StringWidth(got) > width || text.StringWidth(got) < width-2 || !strings.HasPrefix(got, "the warehouse ") || !strings.HasSuffix(got, " Restart it") {
			t.Fatalf("%d columns: %d, %s", width, text.StringWidth(got), got)
		}
	}
}
