package config

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// A rule is what a setting must be: in words for the operator, and as a test of the configuration that has the value.
type rule struct {
	want  string
	holds func(c Config) bool
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// rules has one entry for every key of Config.
var rules = map[string]rule{
	"database.url": {
		"a postgres:// URL (with : / ? # @ in names and passwords percent-encoded) or key=value pairs",
		func(c Config) bool { _, _, ok := redact(c.Database.URL.Reveal()); return ok },
	},
	"database.schema": {
		"at most 63 lower-case letters, digits and _, not starting with a digit or pg_",
		func(c Config) bool {
			return schemaName.MatchString(c.Database.Schema) && !strings.HasPrefix(c.Database.Schema, "pg_")
		},
	},
	"slots.width": {
		"0 for the database's width, or whole seconds that divide 24h, such as 15m",
		func(c Config) bool {
			w := c.Slots.Width
			return w == 0 || w%time.Second == 0 && day%w == 0
		},
	},
	"run.workers": {
		"a whole number, at least 1",
		func(c Config) bool { return c.Run.Workers >= 1 },
	},
	"run.connections": {
		"a whole number from 1 to 1000",
		func(c Config) bool { return 1 <= c.Run.Connections && c.Run.Connections <= 1000 },
	},
	"run.page": {
		"a whole number of rows from 1 to 10000",
		func(c Config) bool { return 1 <= c.Run.Page && c.Run.Page <= 10000 },
	},
	"run.lease": {
		"a duration of at least 3s, such as 1m",
		func(c Config) bool { return c.Run.Lease >= 3*time.Second },
	},
	"run.grace":       {"a duration, such as 20s", always},
	"run.early":       {"a duration, such as 5s", always},
	"run.claim_delay": {"a duration, such as 2s", always},
	"run.job_name":    {"a text", always},
	"jobs.horizon": {
		"a duration of more than 0, such as 1825d",
		func(c Config) bool { return c.Jobs.Horizon > 0 },
	},
	"jobs.max_payload": {
		"a whole number of bytes, at least 1",
		func(c Config) bool { return c.Jobs.MaxPayload >= 1 },
	},
	"history.keep": {"0 for everything, or a duration, such as 90d", always},
	"log.level": {
		"debug, info, warn or error",
		func(c Config) bool { return slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) },
	},
	"log.format": {
		"text or json",
		func(c Config) bool { return c.Log.Format == "text" || c.Log.Format == "json" },
	},
}

// always is the rule of a setting whose type says it all.
func always(Config) bool { return true }
