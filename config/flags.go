package config

import (
	"github.com/spf13/pflag"
)

// annotation marks the flags that set a key, so that a command may have a flag --listen of its own.
const annotation = "prescient-key"

// Flags registers the flags that every command has: --config, --database-url, --schema and
// --log-level. Other settings have few flags: a variable such as PRESCIENT_RUN_PAGE sets one
// for a single command, too. No flag takes a password: Load refuses one in --database-url.
func Flags(fs *pflag.FlagSet) {
	d := Default()
	fs.String("config", "", "configuration `FILE` (.yaml, .toml or .json); default: "+
		"./prescient.yaml, else prescient/prescient.yaml in $XDG_CONFIG_HOME or /etc")
	fs.String("database-url", "", "`URL` or key=value pairs of the database, without a password, or embedded: "+
		"for the private PostgreSQL of this user; default: that one, at a terminal only")
	fs.String("schema", d.Database.Schema, "database schema of this `NAME` that holds the tables")
	fs.String("log-level", d.Log.Level, "least severe `LEVEL` logged: debug, info, warn or error")
	bind(fs, "config", "config")
	bind(fs, "database-url", "database.url")
	bind(fs, "schema", "database.schema")
	bind(fs, "log-level", "log.level")
}

// RunFlags registers the flags of a command that runs slots: --workers and --shard.
func RunFlags(fs *pflag.FlagSet) {
	d := Default().Run
	fs.Int("workers", d.Workers, "run `N` checks at once")
	fs.String("shard", d.Shard,
		"run only shard `I/N` of the stores, with I from 0 to N-1: N processes share the stores; default: all")
	bind(fs, "workers", "run.workers")
	bind(fs, "shard", "run.shard")
}

// ServerFlags registers the flag of serve and daemon: --listen. otherwise says what they do without it.
func ServerFlags(fs *pflag.FlagSet, otherwise string) {
	fs.String("listen", "",
		"`HOST:PORT` of the HTTP server; one that other machines reach needs a token; default: "+otherwise)
	bind(fs, "listen", "server.listen")
}

// bind makes a flag the source of a key.
func bind(fs *pflag.FlagSet, name, key string) {
	fs.Lookup(name).Annotations = map[string][]string{annotation: {key}}
}

// setFlags returns the flags of fs that were set on the command line and are the source of a key, by that key.
func setFlags(fs *pflag.FlagSet) map[string]*pflag.Flag {
	flags := map[string]*pflag.Flag{}
	if fs == nil {
		return flags
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if key := f.Annotations[annotation]; f.Changed && key != nil {
			flags[key[0]] = f
		}
	})
	return flags
}
