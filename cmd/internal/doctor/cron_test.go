package doctor

import (
	"os"
	"os/exec"
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
0 6-18 * * mon-fri /opt/orders --log-level warn run --slot x
@hourly cd /srv && orders run
@daily /opt/orders run --catch-up --config /etc/night.yaml
* * * * * orders status --check
* * * * * borders run
* * * * * orders why run run
# */5 * * * * orders run
`
	want := Crontab{
		"x",
		[]string{"PATH=/usr/local/bin:/usr/bin:/bin", "PRESCIENT_CONFIG=/etc/orders.yaml", "PRESCIENT_CONFIG=/etc/night.yaml"},
		[]string{"*/15 * * * *", "0 6-18 * * mon-fri", "@hourly", "@daily"},
		nil,
	}
	if diff := cmp.Diff(want, readCrontab("x", own, "orders", false)); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"*/5 * * * * root orders run\n", "*/5\t*\t*\t*\t*\troot\torders run\n", "*/5 * * * *  root   orders run\n"} {
		system := readCrontab("x", line, "orders", true)
		if len(system.Runs) != 1 || strings.Join(strings.Fields(system.Runs[0]), " ") != "*/5 * * * *" || !slices.Equal(system.Users, []string{"root"}) {
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
	if found := Users(list, ""); !has(found, "crontab", Action, "install -o nobody -m 0600 such.yaml /no/such.yaml") {
		t.Errorf("%+v", found)
	}
}

func TestACrontabThatDoesNotFitTheSlotsIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		runs     []string
		width    time.Duration
		severity Severity
		part     string
	}{
		{nil, 15 * time.Minute, "", ""},
		{[]string{"*/15 * * * *"}, 15 * time.Minute, "", ""},
		{[]string{"0,30 * * * *", "15,45 * * * *"}, 15 * time.Minute, "", ""},
		{[]string{"@hourly"}, time.Hour, "", ""},
		{[]string{"@hourly"}, 15 * time.Minute, Action, "24 times a day, and there are 96"},
		{[]string{"@hourly"}, 15 * time.Minute, Action, "do: orders install crontab"},
		{[]string{"*/15 * * * *"}, 6 * time.Hour, Note, "find nothing to do"},
		{[]string{"* * * * *"}, time.Second, Action, "orders daemon"},
		{[]string{"no crontab"}, 24 * time.Hour, Action, "0 times a day"},
		{[]string{"@hourly"}, 45 * time.Minute, Action, "there are 32"},
	} {
		var list []Crontab
		if test.runs != nil {
			list = []Crontab{{Path: "/etc/cron.d/orders", Runs: test.runs}}
		}
		found := Width(list, test.width, "orders")
		if test.severity == "" && len(found) > 0 || test.severity != "" && !has(found, "crontab", test.severity, test.part) {
			t.Errorf("%q and %s: %+v", test.runs, test.width, found)
		}
	}
}

// The test calls itself with a file system of its own over /etc/cron.d.
func TestTheCrontabsOfTheSystemAreRead(t *testing.T) {
	t.Parallel()
	const inside = "PRESCIENT_TEST_CROND"
	path, table := "/etc/cron.d/orders", "PRESCIENT_CONFIG=/etc/x.yaml\n0 0 30 2 * root orders run\n"
	if os.Getenv(inside) == "" {
		if exec.CommandContext(t.Context(), "unshare", "--mount", "mount", "-t", "tmpfs", "none", "/etc/cron.d").Run() != nil {
			t.Skip("this needs root, who may mount, and cron: apt-get install cron")
		}
		again := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", `mount -t tmpfs none /etc/cron.d && exec "$0" "$@"`,
			os.Args[0], "-test.run", "^"+t.Name()+"$")
		again.Env = append(os.Environ(), inside+"=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := os.WriteFile(path, []byte(table), 0o644); err != nil { //nolint:gosec // as cron wants it
		t.Fatal(err)
	}
	want := Crontab{path, []string{"PRESCIENT_CONFIG=/etc/x.yaml"}, []string{"0 0 30 2 *"}, []string{"root"}}
	list := Crontabs(t.Context(), "orders")
	if !slices.ContainsFunc(list, func(c Crontab) bool { return cmp.Equal(c, want) }) {
		t.Errorf("%+v is not in %+v", want, list)
	}
}

func TestWhatCronWouldNotSeeIsFound(t *testing.T) {
	t.Parallel()
	here := []config.Entry{
		{Key: "database.url", Value: "postgres://db/shop", Origin: "environment PRESCIENT_DATABASE_URL"},
		{Key: "run.batch_size", Value: "2000", Origin: "default"},
		{Key: "sql_jobs[a].page", Value: "1000", Origin: "default"},
		{Key: "sql_jobs[a].name", Value: "a", Origin: "file shop.yaml"},
	}
	bare := []config.Entry{{Key: "database.url", Origin: "default"}, {Key: "run.batch_size", Value: "2000", Origin: "default"}}
	if found := Environment(here, here, nil, "orders"); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	if found := Environment(here, bare, nil, "orders"); !has(found, "environment", Note, "database.url (environment PRESCIENT_DATABASE_URL), sql_jobs[a].name (file shop.yaml)") {
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
