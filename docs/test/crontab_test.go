package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
)

var (
	crontabRow = regexp.MustCompile("(?m)^\\| `(.+?)` \\| .+? \\| (.+) \\|$")
	sameAs     = regexp.MustCompile("^as `(.+)`$")
	refusal    = regexp.MustCompile("^refused: `(.+)`$")
	listed     = regexp.MustCompile("^from `(.+?)`(?: in `(.+?)`)?: `(.+)`$")
)

// Every row of the table says what a crontab means: what another one does, these instants, or nothing.
func TestCrontabsDifferFromCronsAsTheTableSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("crontab.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := crontabRow.FindAllStringSubmatch(string(page), -1)
	if lines := strings.Count(string(page), "\n|"); len(rows) < 10 || len(rows) != lines-2 {
		t.Fatalf("%d of the %d lines of the table are understood", len(rows), lines-2)
	}
	year := time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range rows {
		expr, says := row[1], row[2]
		var want, got any
		if m := sameAs.FindStringSubmatch(says); m != nil {
			want, got = instants(t, m[1], "", year, 2000), instants(t, expr, "", year, 2000)
		} else if m := listed.FindStringSubmatch(says); m != nil {
			list := strings.Split(m[3], "`, `")
			from, err := time.Parse(time.RFC3339, m[1])
			if err != nil {
				t.Fatal(err)
			}
			want, got = list, instants(t, expr, m[2], from, len(list))
		} else if m := refusal.FindStringSubmatch(says); m != nil {
			_, err := crontab.Parse(expr, "", grid.Min())
			want, got = true, err != nil && strings.Contains(err.Error(), m[1])
		} else {
			t.Fatalf("%s: %q is none of the forms", expr, says)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, %s (-table +crontab):\n%s", expr, says, diff)
		}
	}
}

// instants are the first n instants of a crontab after another one.
func instants(t *testing.T, expr, zone string, after time.Time, n int) (list []string) {
	t.Helper()
	c, err := crontab.Parse(expr, zone, grid.Min())
	if err != nil {
		t.Error(err)
	}
	for at := range c.Between(after, grid.Max()) {
		if list = append(list, at.Format(time.RFC3339)); len(list) == n {
			break
		}
	}
	return list
}
