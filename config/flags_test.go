package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestEveryFlagSetsItsKey(t *testing.T) {
	isolate(t)
	loaded := mustLoad(t, "--database-url=postgres://db/orders", "--schema=checks", "--log-level=debug", "--log-format=json",
		"--workers=8", "--connections=20", "--batch-size=200", "--shard=1/3",
		"--events-destination=stdout:", "--listen=:8080", "--dir=/var/spool/prescient")
	want := Default()
	want.Database = Database{URL: NewURL("postgres://db/orders"), Schema: "checks", Prepare: "off"}
	want.Run.Workers, want.Run.Connections = changed.Run.Workers, changed.Run.Connections
	want.Run.BatchSize, want.Run.Shard = changed.Run.BatchSize, changed.Run.Shard
	want.Events.Destination, want.Server.Listen, want.Spool = NewEndpoint("stdout:"), changed.Server.Listen, changed.Spool
	want.Log = changed.Log
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
		"run.workers": "flag --workers", "run.connections": "flag --connections", "run.batch_size": "flag --batch-size",
		"run.shard": "flag --shard", "events.destination": "flag --events-destination", "server.listen": "flag --listen",
		"spool.dir": "flag --dir",
	}, origins)
}

func TestAnotherFlagOfTheSameNameIsLeftAlone(t *testing.T) {
	isolate(t)
	fs := pflag.NewFlagSet("list", pflag.ContinueOnError)
	Flags(fs)
	fs.Int("batch-size", 1, "rows of the list")
	if err := fs.Parse([]string{"--batch-size=7"}); err != nil {
		t.Fatal(err)
	}
	loaded, err := load(fs, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, 2000, loaded.Config.Run.BatchSize)
}

func TestTheHelpOfEveryFlagSaysItsDefault(t *testing.T) {
	parse(t).VisitAll(func(f *pflag.Flag) {
		if help, _ := pflag.UnquoteUsage(f); f.DefValue == "" && !strings.Contains(f.Usage, "default: ") {
			t.Errorf("--%s %s: no default in %q", f.Name, help, f.Usage)
		}
	})
	diff(t, "64", parse(t).Lookup("workers").DefValue)
}
