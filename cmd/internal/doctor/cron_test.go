package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/config"
)

func TestACrontabIsReadForTheLinesThatRunSlots(t *testing.T) {
	t.Parallel()
	const own = `# m h dom mon dow command
PATH=/usr/local/bin:/usr/bin:/bin
PRESCIENT_CONFIG = "/etc/orders.yaml"
*/15 * * * *  orders run --catch-up
CRON_TZ=Asia/Kolkata
0 6-18 * * mon-fri /opt/orders --log-level warn run --slot x
CRON_TZ = ""
@hourly cd /srv && orders run
@daily /opt/orders run --catch-up --config /etc/night.yaml
* * * * * orders status --check
* * * * * borders run
* * * * * orders why run run
# */5 * * * * orders run
`
	want := Crontab{
		"x",
		[]string{"PATH=/usr/local/bin:/usr/bin:/bin", "PRESCIENT_CONFIG=/etc/orders.yaml", "CRON_TZ=Asia/Kolkata", "CRON_TZ=", "PRESCIENT_CONFIG=/etc/night.yaml"},
		[]Line{{"*/15 * * * *", ""}, {"0 6-18 * * mon-fri", "Asia/Kolkata"}, {"@hourly", ""}, {"@daily", ""}},
		nil,
	}
	if diff := cmp.Diff(want, readCrontab("x", own, "orders", false)); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"*/5 * * * * root orders run\n", "*/5\t*\t*\t*\t*\troot\torders run\n", "*/5 * * * *  root   orders run\n"} {
		system := readCrontab("x", line, "orders", true)
		if len(system.Runs) != 1 || strings.Join(strings.Fields(system.Runs[0].Times), " ") != "*/5 * * * *" || !slices.Equal(system.Users, []string{"root"}) {
			t.Errorf("%q: %q by %q", line, system.Runs, system.Users)
		}
	}
	if mine := readCrontab("x", "0 0 1 jan,jul * orders run\n", "orders", false); len(mine.Runs) != 1 {
		t.Errorf("months by name: %q", mine.Runs)
	}
}

func TestAUserOfCronWhoCannotReadTheFileIsFound(t *testing.T) {
	t.Parallel()
	list := []Crontab{{Path: "/etc/cron.d/orders", Users: []string{"no_such_user", "root"}}}
	found := Users(list, "/etc/prescient/prescient.yaml")
	if len(found) != 1 || !has(found, "crontab", Action, "as user no_such_user, which cannot work: there is no user no_such_user") {
		t.Errorf("%+v", found)
	}
	list = []Crontab{{Path: "/etc/cron.d/orders", Users: []string{"nobody"}, Env: []string{"PRESCIENT_CONFIG=/no/such.yaml"}}}
	if found := Users(list, ""); !has(found, "crontab", Action, " such.yaml /no/such.yaml") {
		t.Errorf("%+v", found)
	}
}

func TestACrontabThatDoesNotFitTheSlotsIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		runs     []Line
		width    time.Duration
		severity Severity
		part     string
	}{
		{nil, 15 * time.Minute, "", ""},
		{lines("", "*/15 * * * *"), 15 * time.Minute, "", ""},
		{lines("", "1-59/15 * * * *"), 15 * time.Minute, "", ""},
		{lines("", "0,30 * * * *", "15,45 * * * *"), 15 * time.Minute, "", ""},
		{lines("", "@hourly"), time.Hour, "", ""},
		{lines("", "@hourly"), 15 * time.Minute, Action, "no run in 72 of the 96 slots of a Monday, such as the slot of 00:15 UTC"},
		{lines("", "@hourly"), 15 * time.Minute, Action, "do: orders install crontab"},
		{lines("", "*/15 * * * mon-fri"), 15 * time.Minute, Action, "no run in 96 of the 96 slots of a Saturday"},
		{lines("", "*/15 * * * *"), 6 * time.Hour, Note, "96 runs on a Monday, which has 4 slots: the other runs find nothing to do"},
		{lines("", "0 3,9,15,21 * * *"), 6 * time.Hour, Action, "up to 3h after the beginning of their slots, such as that of 00:00 UTC"},
		{lines("Asia/Tokyo", "0 3,9,15,21 * * *"), 6 * time.Hour, "", ""},
		{lines("Asia/Tokyo", "0 */6 * * *"), 6 * time.Hour, Action, "up to 3h after"},
		{lines("Asia/Kolkata", "@hourly"), time.Hour, Action, "up to 30m after"},
		{lines("Europe/Berlin", "0 1,7,13,19 * * *"), 6 * time.Hour, Action, "up to 5h after"}, // in summer
		{lines("", "10,20 * * * *"), 30 * time.Minute, Action, "no run in 24 of the 48 slots"},
		{lines("", "* * * * *"), time.Second, Action, "orders daemon"},
		{lines("", "no crontab"), 24 * time.Hour, Action, "no run in 1 of the 1 slots"},
		{lines("", "@hourly"), 45 * time.Minute, Action, "no run in 8 of the 32 slots"},
	} {
		var list []Crontab
		if test.runs != nil {
			list = []Crontab{{Path: "/etc/cron.d/orders", Runs: test.runs}}
		}
		for _, local := range []*time.Location{time.UTC, time.FixedZone("machine", -7*3600)} {
			if local != time.UTC && len(test.runs) > 0 && test.runs[0].Zone == "" {
				continue
			}
			found := Width(list, test.width, local, "orders")
			if test.severity == "" && len(found) > 0 || test.severity != "" && !has(found, "crontab", test.severity, test.part) {
				t.Errorf("%q and %s: %+v", test.runs, test.width, found)
			}
		}
	}
	list := []Crontab{{Path: "/etc/cron.d/orders", Runs: lines("", "0 5,11,17,23 * * *")}}
	if found := Width(list, 6*time.Hour, time.FixedZone("machine", -3600), "orders"); len(found) > 0 {
		t.Errorf("by the clock of the machine: %+v", found)
	}
}

func lines(zone string, times ...string) (all []Line) {
	for _, t := range times {
		all = append(all, Line{t, zone})
	}
	return all
}

func TestTheCrontabsOfTheSystemAreRead(t *testing.T) {
	System = t.TempDir()
	defer func() { System = "/etc" }()
	const table = "PRESCIENT_CONFIG=/etc/x.yaml\n0 0 30 2 * root orders run\n"
	var want []Crontab
	if err := os.Mkdir(filepath.Join(System, "cron.d"), 0o755); err != nil { //nolint:gosec // as cron wants it
		t.Fatal(err)
	}
	for _, name := range []string{"crontab", "cron.d/orders"} {
		path := filepath.Join(System, name)
		if err := os.WriteFile(path, []byte(table), 0o644); err != nil { //nolint:gosec // as cron wants it
			t.Fatal(err)
		}
		want = append(want, Crontab{path, []string{"PRESCIENT_CONFIG=/etc/x.yaml"}, []Line{{"0 0 30 2 *", ""}}, []string{"root"}})
	}
	list := Crontabs(t.Context(), "orders")
	list = slices.DeleteFunc(list, func(c Crontab) bool { return c.Path == "crontab -l" }) // of who runs the test
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhatCronWouldNotSeeIsFound(t *testing.T) {
	t.Parallel()
	here := []config.Entry{
		{Key: "database.url", Value: "postgres://db/shop", Origin: "environment PRESCIENT_DATABASE_URL"},
		{Key: "run.page", Value: "2000", Origin: "default"},
		{Key: "sql_jobs[a].page", Value: "1000", Origin: "default"},
		{Key: "sql_jobs[a].name", Value: "a", Origin: "file shop.yaml"},
		{Key: "sql_jobs[a].query", Value: "select 1", Origin: "file shop.yaml"},
	}
	bare := []config.Entry{{Key: "database.url", Origin: "default"}, {Key: "run.page", Value: "2000", Origin: "default"}}
	if found := Environment(here, here, nil, "orders"); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	if found := Environment(here, bare, nil, "orders"); !has(found, "environment", Note, "database.url (environment PRESCIENT_DATABASE_URL), sql_jobs[a] (file shop.yaml)") {
		t.Errorf("%+v", found)
	}
	file := []config.Entry{
		{Key: "database.url", Value: "postgres://db/shop", Origin: "file /srv/shop.yaml"},
		{Key: "sql_jobs[a].name", Value: "a", Origin: "file /srv/shop.yaml"},
	}
	found := Environment(file, bare, nil, "orders")
	if !has(found, "environment", Note, "sees the settings of /srv/shop.yaml only if it names the file") ||
		!has(found, "environment", Note, "orders install crontab") {
		t.Errorf("all settings are from one file: %+v", found)
	}
	if found := Environment(file, bare, []Crontab{{}}, "orders"); !has(found, "environment", Action, "database.url (file /srv/shop.yaml)") {
		t.Errorf("a crontab runs slots without the file: %+v", found)
	}
	if found := Environment(here, bare, []Crontab{{}}, "orders"); !has(found, "environment", Action, "PRESCIENT_CONFIG=") {
		t.Errorf("a crontab runs slots: %+v", found)
	}
}
