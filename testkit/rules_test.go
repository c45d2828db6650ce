package testkit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/testkit"
)

// rulesFile writes a file of rules.
func rulesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const cases = `rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    steps:
      - {after: 4d, event: case.late}
      - {after: 7d, event: case.lost}
`

// fired returns the events of a kit, as texts.
func fired(kit *testkit.Kit) (list []string) {
	for _, e := range kit.Events() {
		list = append(list, e.Type+" "+strings.TrimPrefix(e.Subject, "cases/")+" "+e.Time.Format("01-02 15:04"))
	}
	return list
}

// The case is closed on day 3 and opened again on day 5. The step of day 4 has passed meanwhile.
func TestARuleRunsInVirtualTime(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]time.Time{
		"in the past": time.Date(1996, time.July, 1, 9, 0, 0, 0, time.UTC), "in the future": testkit.Start,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
			kit.Rules(rulesFile(t, cases))
			kit.DB.MustExec("insert into cases select id, $1 from generate_series(1, 3) as id", kit.Now())
			kit.RunFor(3 * day)
			kit.DB.MustExec("update cases set closed_at = $1 where id in (1, 2)", kit.Now())
			kit.RunFor(2 * day)
			kit.DB.MustExec("update cases set closed_at = null where id = 1")
			key := jobs.Key{JobExec: "case.open", EntityName: "cases", EntityKey: "1"}
			kit.RequireWaiting(key, start.Add(7*day))
			kit.RunAll()
			kit.RequireEnded(key, jobs.Done)
			late, lost := start.Add(4*day).Format(" 01-02 15:04"), start.Add(7*day).Format(" 01-02 15:04")
			got := fired(kit)
			slices.Sort(got) // the events of one slot are in no order
			if diff := cmp.Diff([]string{"case.late 3" + late, "case.lost 1" + lost, "case.lost 3" + lost}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFileOfRulesThatIsWrongFailsTheTest(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	for want, text := range map[string]string{
		"rules.yaml: line 1: rules: want a list, not \"none\"":                              "rules: none",
		"rules.yaml: line 2: rule remind: name: a job of this binary has the name":          strings.Replace(cases, "case.open", "remind", 1),
		"rules.yaml: line 3: rule case.open: table: there is no table public.cases in this": cases,
	} {
		if got := fatal(t, kit, func(k *testkit.Kit) { k.Rules(rulesFile(t, text)) }); !strings.Contains(got, want) {
			t.Errorf("it fails with %q, want %q", got, want)
		}
	}
}
