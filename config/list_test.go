package config

import (
	"strings"
	"testing"
	"time"
)

var bound = struct {
	http []HTTPJob
	sql  []SQLJob
}{
	[]HTTPJob{
		{
			Name: "Order.Unshipped", URL: NewEndpoint("https://app:s3cret@example.com/checks"), Secret: NewSecret(signing),
			Timeout: 5 * time.Second, BatchSize: 100, Concurrency: 1,
			Options: Options{
				MaxChecks: 20, Deadline: 2 * time.Hour, SLA: 5 * time.Minute, Within: time.Hour,
			},
		},
		{Name: "b", URL: NewEndpoint("http://localhost:8080"), Timeout: 30 * time.Second, BatchSize: 500, Concurrency: 4, Options: defaultOptions},
	},
	[]SQLJob{{
		Name: "c", Query: "select", Database: NewURL("postgres://app:s3cret@db/shop"), Role: "reader", Type: "com.example.c",
		Timeout: time.Minute, BatchSize: 20, Concurrency: 3, Options: Options{MaxChecks: 2, Retry: 1, Within: 2 * time.Hour},
	}},
}

func TestJobsAreBoundInAFileOfEachFormat(t *testing.T) {
	for name, content := range map[string]string{
		"jobs.yaml": `
http_jobs:
  - {name: Order.Unshipped, url: "https://app:s3cret@example.com/checks", secret: ` + signing + `, timeout: 5s, batch_size: 100,
     concurrency: 1, max_checks: 20, retry: 0, deadline: 2h, sla: 5m, within: 1h}
  - name: b
    url: http://localhost:8080
    timeout:
sql_jobs:
  - {name: c, query: select, database: "postgres://app:s3cret@db/shop", role: reader, type: com.example.c, timeout: 1m,
     batch_size: 20, concurrency: 3, max_checks: 2, retry: 1, within: 2h}
`,
		"jobs.toml": `
[[http_jobs]]
name = "Order.Unshipped"
url = "https://app:s3cret@example.com/checks"
secret = "` + signing + `"
timeout = "5s"
batch_size = 100
concurrency = 1
max_checks = 20
retry = 0
deadline = "2h"
sla = "5m"
within = "1h"
[[http_jobs]]
name = "b"
url = "http://localhost:8080"
[[sql_jobs]]
name = "c"
query = "select"
database = "postgres://app:s3cret@db/shop"
role = "reader"
type = "com.example.c"
timeout = "1m"
batch_size = 20
concurrency = 3
max_checks = 2
retry = 1
within = "2h"
`,
		"jobs.json": `{
"http_jobs": [
	{"name": "Order.Unshipped", "url": "https://app:s3cret@example.com/checks", "secret": "` + signing + `", "timeout": "5s",
	 "batch_size": 100, "concurrency": 1, "max_checks": 20, "retry": 0, "deadline": "2h", "sla": "5m",
	 "within": "1h"},
	{"name": "b", "url": "http://localhost:8080"}],
"sql_jobs": [{"name": "c", "query": "select", "database": "postgres://app:s3cret@db/shop", "role": "reader",
	"type": "com.example.c", "timeout": "1m", "batch_size": 20, "concurrency": 3, "max_checks": 2, "retry": 1, "within": "2h"}]
}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, isolate(t), name, content)
			loaded := mustLoad(t, "--config", path)
			diff(t, bound.http, loaded.Config.HTTPJobs)
			diff(t, bound.sql, loaded.Config.SQLJobs)
			diff(t, Entry{"http_jobs[Order.Unshipped].url", "https://app:***@example.com/***", "file " + path},
				entry(t, loaded, "http_jobs[Order.Unshipped].url"))
			diff(t, Entry{"http_jobs[Order.Unshipped].secret", Mask, "file " + path}, entry(t, loaded, "http_jobs[Order.Unshipped].secret"))
			diff(t, Entry{"http_jobs[b].timeout", "30s", "default"}, entry(t, loaded, "http_jobs[b].timeout"))
			diff(t, Entry{"sql_jobs[c].database", "postgres://app:***@db/shop", "file " + path}, entry(t, loaded, "sql_jobs[c].database"))
		})
	}
}

func TestABindingThatIsWrongNamesItsEntryAndTheRule(t *testing.T) {
	tests := map[string]struct {
		content string
		want    []string
	}{
		"missing name":        {"http_jobs: [{url: http://a}]", []string{"set name of http_jobs entry 1 from file", "missing, want " + wantName}},
		"missing URL":         {"http_jobs: [{name: a}]", []string{"set url of http_jobs entry 1 (a) from", "missing, want an http://"}},
		"missing query":       {"sql_jobs: [{name: a, query: }]", []string{"set query of sql_jobs entry 1 (a) from", "missing, want a query"}},
		"empty name":          {`sql_jobs: [{name: "", query: q}]`, []string{"set name of sql_jobs entry 1 () from", `got "", want ` + wantName}},
		"no number":           {"http_jobs: [{name: a, url: http://a}, {name: b.c, url: http://b, batch_size: many}]", []string{"set batch_size of http_jobs entry 2 (b.c) from", `got "many", want a whole number`}},
		"negative size":       {"sql_jobs: [{name: a, query: q, batch_size: -1}]", []string{"set batch_size of sql_jobs entry 1 (a) from", `got "-1", want a whole number, 0 for`}},
		"size too large":      {"http_jobs: [{name: a, url: http://a, batch_size: 10001}]", []string{"set batch_size of http_jobs entry 1 (a) from", "want a whole number from 1 to 10000"}},
		"no unit":             {"sql_jobs: [{name: a, query: q, timeout: 30}]", []string{`set timeout of sql_jobs entry 1 (a) from`, `got "30", want a duration`}},
		"another scheme":      {"http_jobs: [{name: a, url: 'ftp://app:s3cret@db'}]", []string{"set url of http_jobs entry 1 (a)", "not shown", "want an http://"}},
		"no host":             {"http_jobs: [{name: a, url: 'https:/example.com'}]", []string{"set url of http_jobs entry 1 (a)", "want an http://"}},
		"no secret":           {"http_jobs: [{name: a, url: http://a, secret: s3cret}]", []string{"set secret of", "not shown", "whsec_"}},
		"half a second":       {"sql_jobs: [{name: a, query: q, within: 1500ms}]", []string{"set within of sql_jobs entry 1 (a) from", "want " + wantWithin}},
		"a window too wide":   {"http_jobs: [{name: a, url: http://a, within: 8785h}]", []string{"set within of http_jobs entry 1 (a) from", "want " + wantWithin}},
		"misspelt key":        {"http_jobs: [{name: a, ulr: http://a}]", []string{"set ulr of http_jobs entry 1 (a) from", "unknown key: did you mean url?"}},
		"unknown key":         {"http_jobs: [{name: a, url: http://a, path: /b}]", []string{"set path of http_jobs entry 1 (a) from", "unknown key, correct or remove it; http_jobs has name, url, secret,"}},
		"name bound twice":    {"http_jobs: [{name: a, url: http://a}, {name: a, url: http://b}]", []string{"set name of http_jobs entry 2 (a) from", "bound by http_jobs entry 1 (a) already"}},
		"name in both lists":  {"http_jobs: [{name: a, url: http://a}]\nsql_jobs: [{name: b, query: q}, {name: a, query: q}]", []string{"set name of sql_jobs entry 2 (a)", "bound by http_jobs entry 1 (a) already"}},
		"capitals in a name":  {"stores: [{name: Shop}]", []string{"set name of stores entry 1 (Shop) from", `got "Shop", want 1 to 63 lower-case letters`}},
		"store named twice":   {"stores: [{name: a, schema: a}, {name: a, schema: b}]", []string{"set name of stores entry 2 (a) from", "stores entry 1 (a) has the name already"}},
		"store listed twice":  {"stores: [{name: a, schema: prescient}, {name: b}]", []string{"set schema of stores entry 2 (b) from", "it is the schema prescient of the database of stores entry 1 (a)"}},
		"pattern of SQL":      {"stores: [{name: a, schema: 'tenant_%'}]", []string{"set schema of stores entry 1 (a) from", `got "tenant_%"`, "or a pattern of such"}},
		"source of a pattern": {"stores: [{name: a, schema: 'tenant_*', source: /shop}]", []string{"set source of stores entry 1 (a) from", `got "/shop"`, "for a schema with a *, empty"}},
		"no source":           {"stores: [{name: a, source: a b}]", []string{"set source of stores entry 1 (a) from", `got "a b"`, "a URI reference"}},
		"table of names":      {"http_jobs: {order.unshipped: {url: http://a}}", []string{"set http_jobs from file", "want a list of tables: [[http_jobs]] in TOML"}},
		"text":                {"sql_jobs: all", []string{"set sql_jobs from file", "want a list of tables"}},
		"list of texts":       {"sql_jobs: [{name: a, query: q}, all]", []string{"set entry 2 of sql_jobs from file", "want a table: [[sql_jobs]]"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, isolate(t), "bad.yaml", test.content)
			_, err := load(parse(t, "--config", path), nil)
			contains(t, err, append(test.want, path)...)
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a secret is shown: %v", err)
			}
			if n := strings.Count(err.Error(), "\n") + 1; n != 1 {
				t.Errorf("%d problems, want 1:\n%v", n, err)
			}
		})
	}
}

func TestASchemeMayBeWrittenInCapitals(t *testing.T) {
	path := writeFile(t, isolate(t), "capitals.yaml", "http_jobs: [{name: a, url: 'HTTP://LOCALHOST'}]\nevents: {destination: 'HTTPS://EXAMPLE.COM/hook'}")
	mustLoad(t, "--config", path)
}

func TestAStoreHasTheDatabaseOfTheSettingsWhereItSaysNoOther(t *testing.T) {
	path := writeFile(t, isolate(t), "stores.toml", `
[database]
url = "postgres://app:s3cret@db/all"
prepare = "on"
[[stores]]
name = "shop"
[[stores]]
name = "tenants"
schema = "tenant_*"
[[stores]]
name = "far"
url = "postgres://far/shop"
`)
	loaded := mustLoad(t, "--config", path)
	stores := loaded.Config.Stores
	diff(t, []Store{{Name: "shop"}, {Name: "tenants", Schema: "tenant_*"}, {Name: "far", URL: NewURL("postgres://far/shop")}}, stores)
	all := NewURL("postgres://app:s3cret@db/all")
	diff(t, Database{URL: all, Schema: "prescient", Prepare: "on"}, stores[0].Database(loaded.Config))
	diff(t, Database{URL: all, Schema: "tenant_*", Prepare: "on"}, stores[1].Database(loaded.Config))
	diff(t, Database{URL: NewURL("postgres://far/shop"), Schema: "prescient", Prepare: "on"}, stores[2].Database(loaded.Config))
	diff(t, []bool{false, true, false}, []bool{stores[0].IsPattern(), stores[1].IsPattern(), stores[2].IsPattern()})
	diff(t, Entry{"stores[tenants].schema", "tenant_*", "file " + path}, entry(t, loaded, "stores[tenants].schema"))
}

func TestAListWithoutContentIsEmpty(t *testing.T) {
	path := writeFile(t, isolate(t), "empty.yaml", "http_jobs:\nsql_jobs: []\n")
	diff(t, Default(), mustLoad(t, "--config", path).Config)
}
