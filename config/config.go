package config

import "time"

// Config is every setting, grouped as in the configuration file. The zero value is not useful:
// start from [Default] or [Load]. It is a plain value, safe to copy while its lists are only read, and holds no secret
// that printing it would show.
type Config struct {
	Database Database `mapstructure:"database"`
	Slots    Slots    `mapstructure:"slots"`
	Run      Run      `mapstructure:"run"`
	Jobs     Jobs     `mapstructure:"jobs"`
	Events   Events   `mapstructure:"events"`
	Daemon   Daemon   `mapstructure:"daemon"`
	Serve    Serve    `mapstructure:"serve"`
	Server   Server   `mapstructure:"server"`
	Spool    Spool    `mapstructure:"spool"`
	History  History  `mapstructure:"history"`
	Metrics  Metrics  `mapstructure:"metrics"`
	Log      Log      `mapstructure:"log"`

	// Stores are where the rows are, when that is more than one schema, in the order of the file.
	Stores []Store `mapstructure:"stores"`

	// HTTPJobs and SQLJobs bind jobs to a service and to a query, in the order of the file, each name once.
	HTTPJobs []HTTPJob `mapstructure:"http_jobs"`
	SQLJobs  []SQLJob  `mapstructure:"sql_jobs"`
}

// Database says where the rows are.
type Database struct {
	// URL is a postgres:// URL or key=value pairs, or Embedded for the private PostgreSQL that prescient runs itself.
	// Default: empty, which stands for that one at a terminal, and is refused elsewhere.
	URL URL `mapstructure:"url"`

	// Schema holds the tables: at most 63 lower-case letters, digits and _, not starting with a digit or pg_.
	// Default: "prescient".
	Schema string `mapstructure:"schema"`

	// Prepare is on where connections may keep prepared statements, those of checks, too; see pgsql.Prepared. Not
	// through a pooler in transaction mode. Default: "off".
	Prepare string `mapstructure:"prepare"`
}

// Slots says how the grid is expected to be.
type Slots struct {
	// Width is the distance between two slots: whole seconds that divide 24 h. The database has the last word and
	// whoever opens it must compare. Default: 0, whatever the database says.
	Width time.Duration `mapstructure:"width"`
}

// Run says how a slot is run.
type Run struct {
	// Workers is how many checks run at once, at least 1. Default: 64.
	Workers int `mapstructure:"workers"`

	// Connections is how many checks with a transaction run at once, 1 to 1000. The pool has room for 5 more.
	// Default: 8.
	Connections int `mapstructure:"connections"`

	// Stores is how many slots of the stores of one server are run at once, at least 1; each has 5 connections besides those of
	// Connections, which, like Workers, bounds all stores together. Default: 4.
	Stores int `mapstructure:"stores"`

	// Shard is the part of the stores that this process works on: I/N for shard I of N, with I from 0 to N-1. Default:
	// empty, all stores.
	Shard string `mapstructure:"shard"`

	// BatchSize is how many rows are claimed, read and recorded at once, at the most; 1 to 10000. Default: 2000.
	BatchSize int `mapstructure:"batch_size"`

	// Lease is how long claimed rows stay with a runner that falls silent, at least 3 s.
	// The heartbeat is a third of it. Default: 1 minute.
	Lease time.Duration `mapstructure:"lease"`

	// Grace is what running checks get to finish after SIGTERM or a timeout. 0: nothing. Default: 20 s.
	Grace time.Duration `mapstructure:"grace"`

	// StartTolerance is how early a run may start: so long before a boundary it waits for that slot, instead of running the
	// slot before. 0: it never waits. Default: 5 s.
	StartTolerance time.Duration `mapstructure:"start_tolerance"`

	// ClaimDelay postpones each claim in proportion to the host's load, by this much when all cores are in use, so that
	// a busy machine leaves rows to idle ones. Default: 0, claim at once.
	ClaimDelay time.Duration `mapstructure:"claim_delay"`

	// JobName is the Kubernetes Job's name, whose suffix gives the slot. Default: empty, the clock gives the slot.
	JobName string `mapstructure:"job_name"`

	// PingURL is an http or https URL that is told when run and catch-up begin and end, and each slot of the daemon begins and ends, by the
	// conventions of healthchecks.io: a service that raises an alarm when it hears nothing. Default: empty, none.
	PingURL Endpoint `mapstructure:"ping_url"`
}

// Jobs says what may be enqueued.
type Jobs struct {
	// Horizon is how far ahead a check may be asked for, more than 0. Default: 43800 h, 5 years.
	Horizon time.Duration `mapstructure:"horizon"`

	// MaxPayload is the largest payload in bytes, from 1 to 1048576, which the database enforces. Defaults to 65536.
	MaxPayload int `mapstructure:"max_payload"`
}

// Events says where events go: those of schedules, and of jobs that are bound to a query.
type Events struct {
	// Destination is where they are published, see package jobs/event. Default: "outbox:", a table in the same database.
	Destination Endpoint `mapstructure:"destination"`

	// Source names their producer, a URI reference. Default: "prescient".
	Source string `mapstructure:"source"`

	// Secret signs what goes to webhooks and to jobs bound to a service: "whsec_" and base64, as Standard Webhooks has
	// it, or several separated by spaces, each of which signs. Default: empty, unsigned.
	Secret Secret `mapstructure:"secret"`

	// AllowedNetworks are addresses that webhooks and jobs bound to a service may connect to although they are private or
	// otherwise special. Default: none.
	AllowedNetworks Prefixes `mapstructure:"allowed_networks"`
}

// Daemon says where prescient daemon listens.
type Daemon struct {
	// Listen is the address of the daemon's HTTP server, host:port or :port. Empty: no server. Default: empty.
	Listen string `mapstructure:"listen"`
}

// Serve says where prescient serve listens.
type Serve struct {
	// Listen is the address of its HTTP server, host:port or :port. An address that other machines reach needs a token.
	// Default: "localhost:8088", which only this machine reaches.
	Listen string `mapstructure:"listen"`
}

// Server says who may send requests to the HTTP server of prescient serve, and to that of the daemon.
type Server struct {
	// Token is the bearer token of operators, at least 16 characters. A name and a colon may precede it: actions are
	// recorded under the name, as in ops:0123456789abcdef. Several tokens are separated by spaces. Empty: no request can
	// act. Default: empty.
	Token Secret `mapstructure:"token"`

	// ReadToken is Token for readers. Empty: everyone may read what prescient serve shows, if only this machine reaches it.
	// Without a token of either kind the daemon offers no schedules and no details, and /metrics needs none. Default: empty.
	ReadToken Secret `mapstructure:"read_token"`

	// Hosts are names that the server answers to, separated by commas, besides localhost and addresses. The daemon also
	// answers to the name of its machine. Default: empty, none.
	Hosts string `mapstructure:"hosts"`

	// Proxy is what browsers speak to a proxy in front of prescient serve: http or https. A token is then needed.
	// Default: "off", there is none.
	Proxy string `mapstructure:"proxy"`

	// ProxyNetworks are the addresses of proxies. The server believes what these, and no others, say in X-Forwarded-For
	// about where a request comes from. Default: none.
	ProxyNetworks Prefixes `mapstructure:"proxy_networks"`
}

// Spool says where prescient spool works.
type Spool struct {
	// Dir has a directory for each slot. Default: empty, none.
	Dir string `mapstructure:"dir"`
}

// History says what happens to finished rows.
type History struct {
	// Retention is how long jobs prune keeps a finished row. Default: 0, everything is kept.
	Retention time.Duration `mapstructure:"retention"`
}

// Metrics says where metrics go, besides those that a daemon serves.
type Metrics struct {
	// File gets those of a run or a catch-up, for the textfile collector of Prometheus' node_exporter, which reads names
	// that end in .prom. Default: empty, none.
	File string `mapstructure:"file"`
}

// Log says what the log on stderr looks like.
type Log struct {
	// Level is the least severe level logged: debug, info, warn or error, as slog.Level parses it. Default: "info".
	Level string `mapstructure:"level"`

	// Format is text or json. Default: "text".
	Format string `mapstructure:"format"`
}

// Default returns the configuration of an empty environment without a file or a flag. It is valid.
func Default() Config {
	return Config{
		Database: Database{Schema: "prescient", Prepare: "off"},
		Run: Run{
			Workers:        64,
			Connections:    8,
			Stores:         4,
			BatchSize:      2000,
			Lease:          time.Minute,
			Grace:          20 * time.Second,
			StartTolerance: 5 * time.Second,
		},
		Jobs:   Jobs{Horizon: 5 * 365 * 24 * time.Hour, MaxPayload: 64 << 10},
		Serve:  Serve{Listen: "localhost:8088"},
		Server: Server{Proxy: "off"},
		Events: Events{Destination: NewEndpoint("outbox:"), Source: "prescient"},
		Log:    Log{Level: "info", Format: "text"},
	}
}
