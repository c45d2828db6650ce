package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestEveryFlagSetsItsKey(t *testing.T) {
	isolate(t)
	loaded := mustLoad(t, "--database-url=postgres://db/orders", "--schema=checks", "--log-level=debug", "--workers=8", "--shard=1/3",
		"--listen=:8080")
	want := Default()
	want.Database = Database{URL: NewURL("postgres://db/orders"), Schema: "checks", Prepare: "auto"}
	want.Run.Workers, want.Run.Shard, want.Server.Listen, want.Log.Level = changed.Run.Workers, changed.Run.Shard, changed.Server.Listen, changed.Log.Level
	diff(t, want, loaded.Config)

	origins := map[string]string{}
	for _, entry := range loaded.Entries {
		if entry.Origin != "default" {
			origins[entry.Key] = entry.Origin
		}
	}
	diff(t, map[string]string{
		"database.url": "flag --database-url", "database.schema": "flag --schema", "log.level": "flag --log-level",
		"run.workers": "flag --workers", "run.shard": "flag --shard", "server.listen": "flag --listen",
	}, origins)
}

func TestAnotherFlagOfTheSameNameIsLeftAlone(t *testing.T) {
	isolate(t)
	fs := pflag.NewFlagSet("list", pflag.ContinueOnError)
	Flags(fs)
	fs.Int("workers", 1, "rows of the list")
	if err := fs.Parse([]string{"--workers=7"}); err != nil {
		t.Fatal(err)
	}
	loaded, err := load(fs, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, 64, loaded.Config.Run.Workers)
}

func TestTheHelpOfEveryFlagSaysItsDefault(t *testing.T) {
	parse(t).VisitAll(func(f *pflag.Flag) {
		if help, _ := pflag.UnquoteUsage(f); f.DefValue == "" && !strings.Contains(f.Usage, "default: ") {
			t.Errorf("--%s %s: no default in %q", f.Name, help, f.Usage)
		}
	})
	diff(t, "64", parse(t).Lookup("workers").DefValue)
}
