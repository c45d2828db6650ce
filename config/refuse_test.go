package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestABadValueNamesItsKeyItsSourceAndItsRule(t *testing.T) {
	bad := map[string][]string{
		"database.url":             {"orders", "https://db/orders", "postgres://u:p%zz@db", "postgres://u:a#b@db/x", "host=db port"},
		"database.schema":          {"Prescient", "1st", "pg_checks", "my-schema", strings.Repeat("s", 64), `x"; drop`},
		"database.prepare":         {"yes", "ON", "true"},
		"slots.width":              {"-15m", "7h", "500ms", "48h", "15"},
		"run.workers":              {"0", "-1", "many", "1.9", "99999999999999999999"},
		"run.connections":          {"0", "-1", "1001", "few"},
		"run.page":                 {"0", "10001", "1k"},
		"run.lease":                {"2999ms", "60", "0", "soon"},
		"run.grace":                {"-1s", "20"},
		"run.start_tolerance":      {"-1s", "5"},
		"run.stores":               {"0", "-1", "2.5", "many"},
		"run.shard":                {"1", "1/0", "2/2", "3/2", "-1/2", "a/b", "1/2/3"},
		"jobs.horizon":             {"0", "5y", "-1d"},
		"jobs.max_payload":         {"0", "64k", "-5"},
		"events.destination":       {"orders", "https://app:s3#cret@db", "http://%zz", "https:/example.com", "http://", "https://a:1,b/hook"},
		"events.source":            {"a b", "%zz", "a<b", "/caf\u00e9", "a|b"},
		"events.secret":            {" ", "s3cret", "whsec_", "whsec_c2hvcnQ=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, x"},
		"events.max_refusals":      {"-1", "many"},
		"events.max_refused_for":   {"-1s", "48"},
		"events.after_dead_letter": {"skip"},
		"events.allowed_networks":  {"localhost", "10.0.0.0/33", "10.0.0.1,", "fe80::1%eth0", "::ffff:10.0.0.1", "::ffff:10.0.0.0/104"},
		"server.listen":            {"8080", "localhost", "localhost:http", "localhost:65536"},
		"server.token":             {"short", "s3cret s3cret s3cret", "s3crét-s3cret-s3cret", " ", "ops:s3cret"},
		"server.read_token":        {"short", "s3cret-s3cret-s3cret short", "ops:s3cret", "ops:s3cret-s3cret-s3cret eve:s3cret"},
		"server.hosts":             {"batch/example", "board/example", "a,,b"},
		"server.proxy":             {"on", "HTTPS"},
		"server.proxy_networks":    {"localhost", "10.0.0.0/33", "fe80::1%eth0"},
		"history.retention":        {"-1d", "90"},
		"alerts.repeat":            {"59s", "-1s", "4"},
		"metrics.file":             {"/var/lib/metrics", "prescient.txt"},
		"log.level":                {"INFO", "trace", "info+2"},
		"log.format":               {"xml", "JSON"},
	}
	for key, values := range bad {
		for _, value := range values {
			t.Run(key+"="+value, func(t *testing.T) {
				isolate(t)
				t.Setenv(variable(key), value)
				_, err := load(nil, nil)
				contains(t, err, "set "+key+" from environment "+variable(key)+": got ", "want "+rules[key].want)
				hidden := slices.Contains([]string{"database.url", "events.destination", "events.secret", "server.token", "server.read_token"}, key)
				if hidden == strings.Contains(err.Error(), `got "`) {
					t.Errorf("a secret is shown, or another value is not: %v", err)
				}
			})
		}
	}
}

func TestABadValueNamesItsSource(t *testing.T) {
	dir := isolate(t)
	path := writeFile(t, dir, "bad.yaml", "run: {page: 0}")
	_, err := load(parse(t, "--config", path), nil)
	contains(t, err, "set run.page from file "+path+`: got "0"`)

	t.Setenv("PRESCIENT_RUN_PAGE", "10001")
	_, err = load(parse(t, "--config", path), nil)
	contains(t, err, `set run.page from environment PRESCIENT_RUN_PAGE: got "10001"`)

	_, err = load(parse(t, "--config", path, "--workers=-1"), nil)
	contains(t, err, `set run.workers from flag --workers: got "-1"`)
}

func TestAValueOfAnotherTypeIsRefusedRatherThanConverted(t *testing.T) {
	for _, content := range []string{
		"run: {lease: 60}", "run: {workers: 1.9}", "run: {workers: true}", "run: {workers: [1]}", "run: {workers: ''}",
		"run: {job_name: [a, b]}", "server: {hosts: [[a]]}", "server: {hosts: ['board/example']}", "server: {token: [short]}",
		"events: {allowed_networks: [localhost]}", "events: {allowed_networks: [true]}", "events: {allowed_networks: {a: b}}",
		"run: {job_name: {a: b}}", "log: {level: 3}", "database: {schema: 2026-01-01}",
	} {
		t.Run(content, func(t *testing.T) {
			path := writeFile(t, isolate(t), "bad.yaml", content)
			_, err := load(parse(t, "--config", path), nil)
			contains(t, err, "from file "+path)
		})
	}
}

func TestAnUnknownKeyInTheFileNamesTheKeyTheFileAndWhatThereIs(t *testing.T) {
	tests := map[string]struct{ content, key, hint string }{
		"typo of a setting":       {"spool: {dirs: x}", "spool.dirs", ": did you mean dir?"},
		"typo in a long section":  {"run: {worker: 8}", "run.worker", ": did you mean workers?"},
		"typo without a value":    {"run: {worker: }", "run.worker", ": did you mean workers?"},
		"typo of a section":       {"runs: {workers: 8}", "runs.workers", ": did you mean run?"},
		"typo of an empty one":    {"runs:", "runs", ": did you mean run?"},
		"setting without one":     {"workers: 8", "workers", ", correct or remove it; the sections are alerts, database, events, history, http_jobs, jobs, log, metrics, receivers, run, server, slots, spool, sql_jobs, stores"},
		"value for a section":     {"run: 8", "run", ", correct or remove it; run has workers, connections, stores, shard, page, lease, grace, start_tolerance"},
		"too deep":                {"run: {workers: {max: 8}}", "run.workers.max", ", correct or remove it; run has workers"},
		"dotted in a wrong place": {"log.levels: warn", "log.levels", ": did you mean level?"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, isolate(t), "typo.yaml", test.content)
			_, err := load(parse(t, "--config", path), nil)
			contains(t, err, "set "+test.key+" from file "+path+": unknown key"+test.hint)
		})
	}
}

func TestWhatIsThereTwiceIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"sections.yaml": {"run: {workers: 8}\nRun: {page: 100}\n", "it has Run and run, which are the same"},
		"settings.yaml": {"run: {workers: 8, Workers: 4}\n", "run has Workers and workers, which are the same"},
		"sections.toml": {"[run]\nworkers = 8\n[RUN]\npage = 100\n", "it has RUN and run, which are the same"},
		"sections.json": {`{"run": {"workers": 8}, "Run": {"page": 100}}`, "it has Run and run, which are the same"},
		"entries.yaml":  {"stores: [{name: a}, {name: b, URL: postgres://h/a, url: postgres://h/b}]\n", "stores entry 2 has URL and url, which are the same"},
		"entries.toml":  {"[[sql_jobs]]\nname = 'a'\nquery = 'q'\nQuery = 'p'\n", "sql_jobs entry 1 has Query and query, which are the same"},
		"dotted.yaml":   {"run.page: 100\nrun: {page: 200}\n", "it has run.page and run.page, which are the same"},
		"dotted.toml":   {"'Run.page' = 100\n[run]\npage = 200\n", "run has Run.page and page, which are the same"},
		"same.json":     {`{"log": {"level": "info"}, "run": {"workers": 8}, "run": {"page": 100}}`, "it has run twice"},
		"setting.json":  {`{"log": {"level": "info", "level": "warn"}}`, "log has level twice"},
		"entry.json":    {`{"stores": [{"name": "a"}, {"name": "b", "url": "postgres://h/a", "url": "postgres://h/b"}]}`, "stores[1] has url twice"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, isolate(t), name, test.content)
			_, err := load(parse(t, "--config", path), nil)
			contains(t, err, path, test.want)
		})
	}
}

func TestAnUnreadableFileNamesWhoNamedIt(t *testing.T) {
	dir := isolate(t)
	missing := filepath.Join(dir, "missing.yaml")
	broken := writeFile(t, dir, "broken.yaml", "run: {workers: 8")
	text := writeFile(t, dir, "settings.txt", "run.workers=8")

	_, err := load(parse(t, "--config", missing), nil)
	contains(t, err, "read configuration file "+missing+" named by flag --config", "no such file")
	_, err = load(parse(t, "--config", text), nil)
	contains(t, err, text, "must end in one of .yaml .yml .toml .json")
	_, err = load(nil, []string{missing, broken})
	contains(t, err, "read configuration file "+broken+" named by the default place", "yaml")
	_, err = load(parse(t, "--config", writeFile(t, dir, "broken.toml", "[run]\nworkers = 8\n\n[database\nurl = ''\n")), nil)
	contains(t, err, "broken.toml named by flag --config: line 4: ", "toml")
	_, err = load(nil, []string{missing, dir})
	contains(t, err, dir)

	t.Setenv(fileVariable, missing)
	_, err = load(nil, nil)
	contains(t, err, missing+" named by environment PRESCIENT_CONFIG")
}

// A password in another encoding would be another password, and what the parsers say of a file in UTF-16 helps nobody.
func TestAFileThatIsNotUTF8IsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"latin1.json": "{\"events\": {\"source\": \"caf\xe9\"}}", "latin1.toml": "[events]\nsource = 'caf\xe9'", "utf16.yaml": "\xff\xfer\x00u\x00n\x00:\x00",
	} {
		_, err := load(parse(t, "--config", writeFile(t, isolate(t), name, content)), nil)
		contains(t, err, name+" named by flag --config: it is not in UTF-8")
	}
}

func TestWhatYAMLReadsAsAnotherValueIsRefused(t *testing.T) {
	for text, kind := range map[string]string{
		"0123": "this number", "0o17": "this number", "0x1F": "this number", "1_000": "this number", "0b11": "this number", "00.5": "this number",
		"123456789012345678901234567890": "this number", "2026-01-01": "this text as a timestamp",
	} {
		path := writeFile(t, isolate(t), "octal.yaml", "# tokens\nserver:\n  token: "+text+"\n")
		_, err := load(parse(t, "--config", path), nil)
		want := "line 3: YAML reads " + kind
		contains(t, err, path, want, "in quotes")
		shown := strings.ReplaceAll(err.Error(), "as it reads 0123 as 83 and 1_000 as 1000", "")
		if strings.Contains(strings.ReplaceAll(shown, path, ""), text) {
			t.Errorf("the value, which may be a secret, is shown: %v", err)
		}
	}
	for _, text := range []string{"0", "500", "+5", "'0123'", `"1_000"`, "1e3"} {
		path := writeFile(t, isolate(t), "decimal.yaml", "# "+text+"\nhistory: {retention: 90d}\nevents:\n  source: "+text+"\n")
		mustLoad(t, "--config", path)
	}
}

// Otherwise the second one would be ignored silently.
func TestAFileOfSeveralDocumentsIsRefused(t *testing.T) {
	path := writeFile(t, isolate(t), "two.yaml", "---\nrun: {page: 500}\n---\nrun: {page: 600}\n")
	_, err := load(parse(t, "--config", path), nil)
	contains(t, err, "two.yaml named by flag --config: it has more than one document of YAML")
	mustLoad(t, "--config", writeFile(t, isolate(t), "one.yaml", "# settings\n---\nrun: {page: 500}\n---\n# none\n"))
}

func TestAllProblemsAreListedAtOnce(t *testing.T) {
	dir := isolate(t)
	path := writeFile(t, dir, "bad.yaml", "run: {worker: 8, lease: 1s}\nlogs: {}\nlog: {format: xml}")
	t.Setenv("PRESCIENT_JOBS_HORIZON", "5y")
	_, err := load(parse(t, "--config", path, "--workers=0", "--database-url=postgres://app:s3cret@db"), nil)
	contains(t, err, "run.worker ", "run.lease", "log.format", "jobs.horizon", "run.workers", "database.url")
	if n := strings.Count(err.Error(), "\n") + 1; n != 6 {
		t.Errorf("%d lines, want one for each of the 6 problems:\n%v", n, err)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the password is shown:\n%v", err)
	}
}

func TestNoFlagTakesAPassword(t *testing.T) {
	for _, url := range []string{
		"postgres://app:s3cret@db/orders",
		"postgres://db/orders?password=s3cret",
		"postgres://db/orders?sslpassword=s3cret",
		"host=db password=s3cret",
		"host=db sslpassword = 's3cret'",
	} {
		t.Run(url, func(t *testing.T) {
			isolate(t)
			_, err := load(parse(t, "--database-url", url), nil)
			contains(t, err, "set database.url from flag --database-url", "password",
				"PRESCIENT_DATABASE_URL", "configuration file", "PGPASSFILE", "service file")
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "host=db") {
				t.Errorf("the URL is shown: %v", err)
			}
		})
	}
	for _, url := range []string{"postgres://app@db/orders", "host=db passfile=/run/pgpass", "service=orders"} {
		isolate(t)
		diff(t, NewURL(url), mustLoad(t, "--database-url", url).Config.Database.URL)
	}
}

func TestARefusedValueNeverShowsAPassword(t *testing.T) {
	for key, value := range map[string]string{
		"database.url":       "postgres://app:s3cret#@db/orders",
		"database.schema":    "postgres://app:s3cret@db/orders",
		"log.level":          "host=db password=s3cret",
		"run.lease":          "postgres://app:s3cret@db/orders",
		"events.destination": "https://app:s3cret#@example.com",
		"events.secret":      "s3cret",
		"server.token":       "s3cret",
		"server.read_token":  "s3cret",
	} {
		t.Run(key, func(t *testing.T) {
			isolate(t)
			t.Setenv(variable(key), value)
			_, err := load(nil, nil)
			contains(t, err, key, "not shown")
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the password is shown: %v", err)
			}
		})
	}
}
