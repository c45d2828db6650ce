package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// annotation marks the flags that set a key, so that a command may have a flag --listen of its own.
const annotation = "prescient-key"

// Flags registers the flags that every command has: --config, --database-url, --schema, --log-level and --log-format.
// None of them takes a password: Load refuses one in --database-url.
func Flags(fs *pflag.FlagSet) {
	d := Default()
	fs.String("config", "", "configuration `FILE` (.yaml, .toml or .json); default: "+
		"./prescient.yaml, else prescient/prescient.yaml in $XDG_CONFIG_HOME or /etc")
	fs.String("database-url", "", "`URL` or key=value pairs of the database, without a password, or embedded: "+
		"for the private PostgreSQL of this user; default: that one, at a terminal only")
	fs.String("schema", d.Database.Schema, "database schema of this `NAME` that holds the tables")
	fs.String("log-level", d.Log.Level, "least severe `LEVEL` logged: debug, info, warn or error")
	fs.String("log-format", d.Log.Format, "`FORMAT` of the log on stderr: text or json")
	bind(fs, "config", "config")
	bind(fs, "database-url", "database.url")
	bind(fs, "schema", "database.schema")
	bind(fs, "log-level", "log.level")
	bind(fs, "log-format", "log.format")
}

// RunFlags registers the flags of a command that runs slots: --workers, --connections, --batch-size and --shard. The other
// settings of section run have none: they belong to a machine, not to one command.
func RunFlags(fs *pflag.FlagSet) {
	d := Default().Run
	fs.Int("workers", d.Workers, "run `N` checks at once")
	fs.Int("connections", d.Connections, "run `N` checks with a transaction at once, 1 to 1000")
	fs.Int("batch-size", d.BatchSize, "claim, read and record `N` rows at once, at the most; 1 to 10000")
	fs.String("shard", d.Shard, "run only shard `I/N` of the stores, with I from 0 to N-1: N processes share the stores; default: all")
	for _, name := range []string{"workers", "connections", "batch-size", "shard"} {
		bind(fs, name, "run."+strings.ReplaceAll(name, "-", "_"))
	}
}

// EventFlags registers the flag of a command that publishes events: --events-destination. Like [Flags] it takes no password.
func EventFlags(fs *pflag.FlagSet) {
	fs.String("events-destination", Default().Events.Destination.String(), "`URL` that events are published to, without a password")
	bind(fs, "events-destination", "events.destination")
}

// ServerFlags registers the flag of serve and daemon: --listen. otherwise says what they do without it.
func ServerFlags(fs *pflag.FlagSet, otherwise string) {
	fs.String("listen", "", "`HOST:PORT` of the HTTP server; one that other machines reach needs a token; default: "+otherwise)
	bind(fs, "listen", "server.listen")
}

// SpoolFlags registers the flag of the commands that work in a spool directory: --dir.
func SpoolFlags(fs *pflag.FlagSet) {
	fs.String("dir", "", "spool `DIRECTORY`; default: spool.dir of the configuration")
	bind(fs, "dir", "spool.dir")
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
