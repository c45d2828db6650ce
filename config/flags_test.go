package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestEveryFlagSetsItsKey(t *testing.T) {
	isolate(t)
	loaded := mustLoad(t, "--database-url=postgres://db/orders", "--schema=checks", "--log-level=debug", "--log-format=json",
		"--workers=8", "--connections=20", "--page=200", "--lease=90s", "--grace=1m", "--early=1.5s", "--claim-delay=2s", "--part=1/3",
		"--job-name=scan-29401665", "--ping-url=https://example.com/ping", "--events-to=stdout:", "--listen=:8080", "--dir=/var/spool/prescient",
		"--metrics-file=/var/lib/metrics/prescient.prom")
	want := Default()
	want.Database = Database{URL: NewURL("postgres://db/orders"), Schema: "checks", Prepare: "off"}
	stores := want.Run.Stores
	want.Run = changed.Run
	want.Run.Stores = stores // which has no flag
	want.Events.To, want.Daemon.Listen, want.Spool = NewEndpoint("stdout:"), changed.Daemon.Listen, changed.Spool
	want.Metrics, want.Log = changed.Metrics, changed.Log
	diff(t, want, loaded.Config)

	origins := map[string]string{}
	for _, entry := range loaded.Entries {
		if entry.Origin != "default" {
			origins[entry.Key] = entry.Origin
		}
	}
	diff(t, map[string]string{
		"database.url": "flag --database-url", "database.schema": "flag --schema",
		"log.level": "flag --log-level", "log.format": "flag --log-format",
		"run.workers": "flag --workers", "run.connections": "flag --connections", "run.page": "flag --page",
		"run.lease": "flag --lease", "run.grace": "flag --grace", "run.early": "flag --early",
		"run.claim_delay": "flag --claim-delay", "run.job_name": "flag --job-name", "run.part": "flag --part", "run.ping_url": "flag --ping-url",
		"events.to": "flag --events-to", "daemon.listen": "flag --listen", "spool.dir": "flag --dir",
		"metrics.file": "flag --metrics-file",
	}, origins)
}

func TestTheFlagOfServeIsNotThatOfTheDaemon(t *testing.T) {
	isolate(t)
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	ServeFlags(fs)
	if err := fs.Parse([]string{"--listen=:1"}); err != nil {
		t.Fatal(err)
	}
	loaded, err := load(fs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := loaded.Config; c.Serve.Listen != ":1" || c.Daemon.Listen != "" {
		t.Errorf("serve listens on %q, the daemon on %q", c.Serve.Listen, c.Daemon.Listen)
	}
}

func TestAnotherFlagOfTheSameNameIsLeftAlone(t *testing.T) {
	isolate(t)
	fs := pflag.NewFlagSet("list", pflag.ContinueOnError)
	Flags(fs)
	fs.Int("page", 1, "page of the list")
	if err := fs.Parse([]string{"--page=7"}); err != nil {
		t.Fatal(err)
	}
	loaded, err := load(fs, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, 2000, loaded.Config.Run.Page)
}

func TestTheHelpOfEveryFlagSaysItsDefault(t *testing.T) {
	parse(t).VisitAll(func(f *pflag.Flag) {
		if help, _ := pflag.UnquoteUsage(f); f.DefValue == "" && !strings.Contains(f.Usage, "default: ") {
			t.Errorf("--%s %s: no default in %q", f.Name, help, f.Usage)
		}
	})
	diff(t, "1m", parse(t).Lookup("lease").DefValue)
}
