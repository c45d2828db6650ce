package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// signing is a secret of Standard Webhooks.
const signing = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// changed differs from the default in every setting; changedText is how people write it.
var changed = Config{
	Database: Database{URL: NewURL("postgres://app:s3cret@db/orders?sslmode=verify-full"), Schema: "checks", Prepare: "on"},
	Slots:    Slots{Width: 5 * time.Minute},
	Run: Run{
		Workers: 8, Connections: 20, Page: 200, Lease: 90 * time.Second, Grace: time.Minute,
		StartTolerance: 1500 * time.Millisecond, Stores: 3, Shard: "1/3", JobName: "scan-29401665", PingURL: NewEndpoint("https://example.com/ping"),
	},
	Jobs: Jobs{Horizon: 36 * time.Hour, MaxPayload: 1 << 20},
	Events: Events{
		Destination: NewEndpoint("https://app:s3cret@example.com/hook"), Source: "https://shop.example.com/orders",
		Secret: NewSecret(signing), AllowedNetworks: Prefixes{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		MaxRefusals: 100, MaxRefusedFor: 48 * time.Hour, AfterDeadLetter: "continue",
	},
	Server: Server{
		Listen: ":8080",
		Token:  NewSecret("ops:s3cret-s3cret-s3cret s3cret-s3cret-s3cre2"), ReadToken: NewSecret("s3cret-s3cret-s3cre3"),
		Hosts: "board.example.com", Proxy: "https", ProxyNetworks: Prefixes{netip.MustParsePrefix("192.0.2.0/24")},
	},
	Spool:   Spool{Dir: "/var/spool/prescient"},
	History: History{Retention: 90 * 24 * time.Hour},
	Alerts:  Alerts{Receiver: "ops", Repeat: 30 * time.Minute},
	Metrics: Metrics{File: "/var/lib/metrics/prescient.prom"},
	Log:     Log{Level: "debug", Format: "json"},
}

var changedText = map[string]string{
	"database.url":             "postgres://app:s3cret@db/orders?sslmode=verify-full",
	"database.schema":          "checks",
	"database.prepare":         "on",
	"slots.width":              "5m",
	"run.workers":              "8",
	"run.connections":          "20",
	"run.page":                 "200",
	"run.lease":                "90s",
	"run.grace":                "1m",
	"run.start_tolerance":      "1.5s",
	"run.stores":               "3",
	"run.shard":                "1/3",
	"run.job_name":             "scan-29401665",
	"run.ping_url":             "https://example.com/ping",
	"jobs.horizon":             "1d12h",
	"jobs.max_payload":         "1048576",
	"events.destination":       "https://app:s3cret@example.com/hook",
	"events.source":            "https://shop.example.com/orders",
	"events.secret":            signing,
	"events.allowed_networks":  "10.0.0.0/8,::1",
	"events.max_refusals":      "100",
	"events.max_refused_for":   "48h",
	"events.after_dead_letter": "continue",
	"server.listen":            ":8080",
	"server.token":             "ops:s3cret-s3cret-s3cret s3cret-s3cret-s3cre2",
	"server.read_token":        "s3cret-s3cret-s3cre3",
	"server.hosts":             "board.example.com",
	"server.proxy":             "https",
	"server.proxy_networks":    "192.0.2.0/24",
	"spool.dir":                "/var/spool/prescient",
	"history.retention":        "90d",
	"alerts.receiver":          "ops",
	"alerts.repeat":            "30m",
	"metrics.file":             "/var/lib/metrics/prescient.prom",
	"log.level":                "debug",
	"log.format":               "json",
}

var changedFiles = map[string]string{
	"all.yaml": `
database: {url: "postgres://app:s3cret@db/orders?sslmode=verify-full", schema: checks, prepare: on}
slots: {width: 5m}
run: {workers: 8, connections: 20, page: 200, lease: 90s, grace: 1m, start_tolerance: 1.5s, stores: 3, shard: 1/3, job_name: scan-29401665, ping_url: "https://example.com/ping"}
jobs: {horizon: 1d12h, max_payload: 1048576}
events: {destination: "https://app:s3cret@example.com/hook", source: https://shop.example.com/orders, secret: ` + signing + `, allowed_networks: "10.0.0.0/8, ::1", max_refusals: 100, max_refused_for: 48h, after_dead_letter: continue}
server: {listen: ":8080", token: "ops:s3cret-s3cret-s3cret s3cret-s3cret-s3cre2", read_token: s3cret-s3cret-s3cre3, hosts: board.example.com, proxy: https, proxy_networks: 192.0.2.0/24}
spool: {dir: /var/spool/prescient}
history: {retention: 90d}
alerts: {receiver: ops, repeat: 30m}
metrics: {file: /var/lib/metrics/prescient.prom}
log: {level: debug, format: json}
`,
	"all.toml": `
database = {url = "postgres://app:s3cret@db/orders?sslmode=verify-full", schema = "checks", prepare = "on"}
slots.width = "5m"
jobs = {horizon = "1d12h", max_payload = 1048576}
server = {listen = ":8080", token = "ops:s3cret-s3cret-s3cret s3cret-s3cret-s3cre2", read_token = "s3cret-s3cret-s3cre3", hosts = "board.example.com", proxy = "https", proxy_networks = "192.0.2.0/24"}
spool.dir = "/var/spool/prescient"
history.retention = "90d"
alerts.receiver = "ops"
alerts.repeat = "30m"
metrics.file = "/var/lib/metrics/prescient.prom"
log = {level = "debug", format = "json"}
[run]
workers = 8
connections = 20
page = 200
lease = "90s"
grace = "1m"
start_tolerance = "1.5s"
stores = 3
shard = "1/3"
job_name = "scan-29401665"
ping_url = "https://example.com/ping"
[events]
destination = "https://app:s3cret@example.com/hook"
source = "https://shop.example.com/orders"
secret = "` + signing + `"
allowed_networks = "10.0.0.0/8, ::1"
max_refusals = 100
max_refused_for = "48h"
after_dead_letter = "continue"
`,
	"all.json": `{
"database": {"url": "postgres://app:s3cret@db/orders?sslmode=verify-full", "schema": "checks", "prepare": "on"},
"slots": {"width": "5m"},
"run": {"workers": 8, "connections": 20, "page": 200, "lease": "90s", "grace": "1m", "start_tolerance": "1.5s", "stores": 3, "shard": "1/3", "job_name": "scan-29401665", "ping_url": "https://example.com/ping"},
"jobs": {"horizon": "1d12h", "max_payload": 1048576},
"events": {"destination": "https://app:s3cret@example.com/hook", "source": "https://shop.example.com/orders", "secret": "` + signing + `", "allowed_networks": "10.0.0.0/8, ::1", "max_refusals": 100, "max_refused_for": "48h", "after_dead_letter": "continue"},
"server": {"listen": ":8080", "token": "ops:s3cret-s3cret-s3cret s3cret-s3cret-s3cre2", "read_token": "s3cret-s3cret-s3cre3", "hosts": "board.example.com", "proxy": "https", "proxy_networks": "192.0.2.0/24"},
"spool": {"dir": "/var/spool/prescient"},
"history": {"retention": "90d"},
"alerts": {"receiver": "ops", "repeat": "30m"},
"metrics": {"file": "/var/lib/metrics/prescient.prom"},
"log": {"level": "debug", "format": "json"}
}`,
}

func TestWithoutAnySourceTheDefaultsHold(t *testing.T) {
	isolate(t)
	loaded := mustLoad(t)
	diff(t, Default(), loaded.Config)
	for _, entry := range loaded.Entries {
		if entry.Origin != "default" {
			t.Errorf("%s comes from %s", entry.Key, entry.Origin)
		}
	}
}

func TestFlagsAreOptional(t *testing.T) {
	isolate(t)
	for name, fs := range map[string]*pflag.FlagSet{"nil": nil, "none registered": {}} {
		t.Run(name, func(t *testing.T) {
			loaded, err := load(fs, nil)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, Default(), loaded.Config)
		})
	}
}

// example returns the example that the rule of a setting gives, such as 2s.
func example(t *testing.T, key string) string {
	t.Helper()
	_, text, found := strings.Cut(rules[key].want, "such as ")
	if !found {
		t.Fatalf("the rule of %s gives no example: let it end in such as VALUE", key)
	}
	text, _, _ = strings.Cut(text, " or ")
	return strings.TrimSpace(text)
}

// A setting that changed lacks has its default there.
func init() {
	defaults := map[string]string{}
	d := Default()
	for key, field := range fields(&d) {
		defaults[key] = show(field)
	}
	for key, field := range fields(&changed) {
		if _, is := changedText[key]; !is {
			set(field, defaults[key])
		}
	}
}

func TestEveryKeyCanBeSetByAVariable(t *testing.T) {
	want := changed
	for key, field := range fields(&want) {
		t.Run(key, func(t *testing.T) {
			isolate(t)
			text, known := changedText[key]
			if !known {
				text = example(t, key)
				if !set(field, text) {
					t.Fatalf("the example %q is no value", text)
				}
			}
			t.Setenv(variable(key), text)
			loaded := mustLoad(t)
			for k, got := range fields(&loaded.Config) {
				if k == key {
					diff(t, map[string]string{k: show(field)}, map[string]string{k: show(got)})
				}
			}
		})
	}
	want = changed
	t.Run("all at once", func(t *testing.T) {
		isolate(t)
		for key, text := range changedText {
			t.Setenv(variable(key), text)
		}
		loaded := mustLoad(t)
		diff(t, changed, loaded.Config)
		for _, entry := range loaded.Entries {
			if _, is := changedText[entry.Key]; is {
				diff(t, "environment "+variable(entry.Key), entry.Origin)
			}
		}
	})
}

func TestEveryKeyCanBeSetByAFileOfEachFormat(t *testing.T) {
	for name, content := range changedFiles {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, isolate(t), name, content)
			loaded := mustLoad(t, "--config", path)
			diff(t, changed, loaded.Config)
			for _, entry := range loaded.Entries {
				if _, is := changedText[entry.Key]; is {
					diff(t, "file "+path, entry.Origin)
				}
			}
		})
	}
}

// Editors of Windows begin files with it, and only the parser of YAML knows it.
func TestAFileOfEachFormatMayBeginWithAByteOrderMark(t *testing.T) {
	for name, content := range changedFiles {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, isolate(t), name, "\ufeff"+strings.ReplaceAll(content, "\n", "\r\n"))
			diff(t, changed, mustLoad(t, "--config", path).Config)
		})
	}
}

func TestALaterSourceWins(t *testing.T) {
	tests := map[string]struct {
		file, env string
		args      []string
		want      int
		origin    string
	}{
		"default":                        {"", "", nil, 64, "default"},
		"file over default":              {"8", "", nil, 8, "file"},
		"environment over default":       {"", "16", nil, 16, "environment PRESCIENT_RUN_WORKERS"},
		"environment over file":          {"8", "16", nil, 16, "environment PRESCIENT_RUN_WORKERS"},
		"flag over default":              {"", "", []string{"--workers=32"}, 32, "flag --workers"},
		"flag over all":                  {"8", "16", []string{"--workers=32"}, 32, "flag --workers"},
		"flag given with the default":    {"8", "16", []string{"--workers=64"}, 64, "flag --workers"},
		"a null in the file is no value": {"null", "", nil, 64, "default"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := isolate(t)
			if test.file != "" {
				path := writeFile(t, dir, "set.yaml", "run:\n  workers: "+test.file)
				t.Setenv(fileVariable, path)
				if test.origin == "file" {
					test.origin += " " + path
				}
			}
			t.Setenv("PRESCIENT_RUN_WORKERS", test.env)
			loaded := mustLoad(t, test.args...)
			diff(t, test.want, loaded.Config.Run.Workers)
			diff(t, test.origin, entry(t, loaded, "run.workers").Origin)
		})
	}
}

func TestAnEmptyVariableIsUnsetAndAnEmptyFlagIsRefused(t *testing.T) {
	path := writeFile(t, isolate(t), "set.yaml", "database: {url: postgres://db/orders}")
	t.Setenv("PRESCIENT_DATABASE_URL", "")
	diff(t, NewURL("postgres://db/orders"), mustLoad(t, "--config", path).Config.Database.URL)
	_, err := load(parse(t, "--config", path, "--database-url="), nil)
	contains(t, err, "flag --database-url is empty: give a value, or leave the flag out")
}

func TestAStrayVariableOfASectionsNameHidesNothing(t *testing.T) {
	path := writeFile(t, isolate(t), "set.yaml", "run: {workers: 8}")
	t.Setenv("PRESCIENT_RUN", "1")
	diff(t, 8, mustLoad(t, "--config", path).Config.Run.Workers)
}

func TestSettingsOfSeveralValuesAreAlsoListsInAFile(t *testing.T) {
	const one, two = "s3cret-s3cret-s3cret", "ops:s3cret-s3cret-s3cre2"
	for name, content := range map[string]string{
		"list.yaml": `
events:
  allowed_networks: [10.0.0.0/8, "::1"]
  secret: [` + signing + `, ` + signing + `]
server:
  token: [` + one + `, "` + two + `"]
  read_token: []
  hosts:
    - board.example.com
    - batch.example.com
  proxy_networks:
    - 192.0.2.0/24
http_jobs: [{name: b, url: "http://localhost:8080", secret: [` + signing + `, ` + signing + `]}]
`,
		"list.toml": `
[events]
allowed_networks = ["10.0.0.0/8", "::1"]
secret = ["` + signing + `", "` + signing + `"]
[server]
token = ["` + one + `", "` + two + `"]
read_token = []
hosts = ["board.example.com", "batch.example.com"]
proxy_networks = ["192.0.2.0/24"]
[[http_jobs]]
name = "b"
url = "http://localhost:8080"
secret = ["` + signing + `", "` + signing + `"]
`,
		"list.json": `{
"events": {"allowed_networks": ["10.0.0.0/8", "::1"], "secret": ["` + signing + `", "` + signing + `"]},
"server": {"token": ["` + one + `", "` + two + `"], "read_token": [],
	"hosts": ["board.example.com", "batch.example.com"], "proxy_networks": ["192.0.2.0/24"]},
"http_jobs": [{"name": "b", "url": "http://localhost:8080", "secret": ["` + signing + `", "` + signing + `"]}]
}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, isolate(t), name, content)
			got := mustLoad(t, "--config", path).Config
			diff(t, "10.0.0.0/8, ::1/128", got.Events.AllowedNetworks.String())
			diff(t, signing+" "+signing, got.Events.Secret.Reveal())
			diff(t, one+" "+two, got.Server.Token.Reveal())
			diff(t, "", got.Server.ReadToken.Reveal())
			diff(t, Hosts("board.example.com, batch.example.com"), got.Server.Hosts)
			diff(t, "192.0.2.0/24", got.Server.ProxyNetworks.String())
			diff(t, signing+" "+signing, got.HTTPJobs[0].Secret.Reveal())
		})
	}
}

func TestAnEmptySectionHidesNothing(t *testing.T) {
	path := writeFile(t, isolate(t), "set.yaml", "run:\n  # workers: 8\nlog: {level: warn}\n")
	t.Setenv("PRESCIENT_RUN_PAGE", "10")
	got := mustLoad(t, "--config", path, "--workers=7").Config
	diff(t, []any{7, 10, time.Minute, "warn"}, []any{got.Run.Workers, got.Run.Page, got.Run.Lease, got.Log.Level})
}

func TestALineBreakAtTheEndOfAVariableIsNotPartOfIt(t *testing.T) {
	isolate(t)
	t.Setenv("PRESCIENT_DATABASE_URL", "postgres://db/orders\n")
	diff(t, "postgres://db/orders", mustLoad(t).Config.Database.URL.Reveal())
}

func TestEntriesAreSortedAndMasked(t *testing.T) {
	isolate(t)
	for key, text := range changedText {
		t.Setenv(variable(key), text)
	}
	var got [][2]string
	for _, entry := range mustLoad(t).Entries {
		if _, is := changedText[entry.Key]; !is {
			continue
		}
		got = append(got, [2]string{entry.Key, entry.Value})
	}
	diff(t, [][2]string{
		{"alerts.receiver", "ops"},
		{"alerts.repeat", "30m"},
		{"database.prepare", "on"},
		{"database.schema", "checks"},
		{"database.url", "postgres://app:***@db/orders?sslmode=verify-full"},
		{"events.after_dead_letter", "continue"},
		{"events.allowed_networks", "10.0.0.0/8, ::1/128"},
		{"events.destination", "https://app:***@example.com/***"},
		{"events.max_refusals", "100"},
		{"events.max_refused_for", "48h"},
		{"events.secret", "***"},
		{"events.source", "https://shop.example.com/orders"},
		{"history.retention", "2160h"},
		{"jobs.horizon", "36h"},
		{"jobs.max_payload", "1048576"},
		{"log.format", "json"},
		{"log.level", "debug"},
		{"metrics.file", "/var/lib/metrics/prescient.prom"},
		{"run.connections", "20"},
		{"run.grace", "1m"},
		{"run.job_name", "scan-29401665"},
		{"run.lease", "1m30s"},
		{"run.page", "200"},
		{"run.ping_url", "https://example.com/***"},
		{"run.shard", "1/3"},
		{"run.start_tolerance", "1.5s"},
		{"run.stores", "3"},
		{"run.workers", "8"},
		{"server.hosts", "board.example.com"},
		{"server.listen", ":8080"},
		{"server.proxy", "https"},
		{"server.proxy_networks", "192.0.2.0/24"},
		{"server.read_token", "***"},
		{"server.token", "***"},
		{"slots.width", "5m"},
		{"spool.dir", "/var/spool/prescient"},
	}, got)
}

func TestAnUnknownVariableIsAWarning(t *testing.T) {
	isolate(t)
	t.Setenv("PRESCIENT_RUN_WORKER", "8")
	t.Setenv("PRESCIENT_DATABASE_PASSWORD", "s3cret")
	t.Setenv("PRESCIENT_SCHEMA", "shop")
	t.Setenv("PRESCIENT_TEST_DATABASE", "x")
	t.Setenv("PRESCIENT_CONFIG", "")
	t.Setenv("PRESCIENT_LOG_LEVEL", "warn")
	const rest = " is no setting and is ignored; prescient config show lists the settings"
	want := []string{
		"environment variable PRESCIENT_DATABASE_PASSWORD" + rest,
		"environment variable PRESCIENT_RUN_WORKER is no setting and is ignored: did you mean PRESCIENT_RUN_WORKERS?",
		"environment variable PRESCIENT_SCHEMA is no setting and is ignored: did you mean PRESCIENT_DATABASE_SCHEMA?",
	}
	diff(t, want, mustLoad(t).Warnings)

	t.Setenv("PRESCIENT_LOG_LEVEL", "loud")
	loaded, err := load(nil, nil)
	contains(t, err, "log.level")
	diff(t, Loaded{Warnings: want}, loaded)
}

func TestTheFirstFileFoundIsRead(t *testing.T) {
	dir := isolate(t)
	work := filepath.Join(dir, "work.yaml")
	system := filepath.Join(dir, "etc", "prescient.yaml")
	named := writeFile(t, dir, "named.yml", "run: {workers: 4}")
	byVariable := writeFile(t, dir, "variable.toml", "run.workers = 3")
	find := func(args ...string) int {
		t.Helper()
		loaded, err := load(parse(t, args...), []string{work, system})
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Config.Run.Workers
	}
	diff(t, 64, find())
	writeFile(t, dir, "etc/prescient.yaml", "run: {workers: 1}")
	diff(t, 1, find())
	writeFile(t, dir, "work.yaml", "run: {workers: 2}")
	diff(t, 2, find())
	t.Setenv(fileVariable, byVariable)
	diff(t, 3, find())
	diff(t, 4, find("--config", named))
	_, err := load(parse(t, "--config="), []string{work, system})
	contains(t, err, "flag --config is empty")
}

func TestFilesAreLookedForInTheWorkingDirectoryThenTheUsersThenTheSystems(t *testing.T) {
	isolate(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"prescient.yaml", home + "/.config/prescient/prescient.yaml", "/etc/prescient/prescient.yaml"}, searchPaths())
	t.Setenv("XDG_CONFIG_HOME", "/xdg")
	diff(t, []string{"prescient.yaml", "/xdg/prescient/prescient.yaml", "/etc/prescient/prescient.yaml"}, searchPaths())
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	diff(t, []string{"prescient.yaml", "/etc/prescient/prescient.yaml"}, searchPaths())
}

func TestLoadReadsTheFileOfTheWorkingDirectory(t *testing.T) {
	path := writeFile(t, isolate(t), "prescient.yaml", "run: {workers: 8}")
	loaded, err := Load(parse(t))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, Entry{"run.workers", "8", "file " + path}, entry(t, loaded, "run.workers"))
}

func entry(t *testing.T, loaded Loaded, key string) Entry {
	t.Helper()
	for _, entry := range loaded.Entries {
		if entry.Key == key {
			return entry
		}
	}
	t.Fatalf("no entry %s", key)
	return Entry{}
}
