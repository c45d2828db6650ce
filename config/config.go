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
	Server   Server   `mapstructure:"server"`
	Spool    Spool    `mapstructure:"spool"`
	History  History  `mapstructure:"history"`
	Alerts   Alerts   `mapstructure:"alerts"`
	Metrics  Metrics  `mapstructure:"metrics"`
	Log      Log      `mapstructure:"log"`

	// Stores are where the rows are, when that is more than one schema, in the order of the file.
	Stores []Store `mapstructure:"stores"`

	// Destinations are where a forwarder sends events, beside Events.Destination, sorted by name.
	Destinations []Destination `mapstructure:"events.destinations"`

	// Receivers are where messages to people go, sorted by name.
	Receivers []Receiver `mapstructure:"receivers"`

	// HTTPJobs and SQLJobs bind jobs to a service and to a query, in the order of the file, each name once.
	HTTPJobs []HTTPJob `mapstructure:"http_jobs"`
	SQLJobs  []SQLJob  `mapstructure:"sql_jobs"`
}

// Database says where the rows are.
type Database struct {
	// URL is a postgres:// URL, key=value pairs, or "embedded:", the private PostgreSQL. Empty is
	// the private one at a terminal, and refused elsewhere. Defaults to empty.
	URL URL `mapstructure:"url"`

	// Schema is the schema that holds the tables. It has at most 63 lower-case letters, digits and
	// _, and starts with neither a digit nor pg_. Defaults to prescient.
	Schema string `mapstructure:"schema"`

	// Prepare says which statements connections keep prepared. auto: those of enqueues, where no pooler is in between. on:
	// all, which no pooler in transaction mode allows. off: none. Defaults to auto.
	Prepare string `mapstructure:"prepare"`
}

// Slots says how the grid is expected to be.
type Slots struct {
	// Width is the distance between two slots, whole seconds that divide 24 h. 0 takes the width of
	// the database; any other value must agree with it. "migrate up" gives it to a new schema.
	// Defaults to 0.
	Width time.Duration `mapstructure:"width"`
}

// Run says how a slot is run.
type Run struct {
	// Workers is how many checks run at once, at least 1. Defaults to 64.
	Workers int `mapstructure:"workers"`

	// Connections is how many checks with a transaction run at once, 1 to 1000. The pool has 5 more
	// connections. Defaults to 8.
	Connections int `mapstructure:"connections"`

	// Stores is how many slots run at once on one server if there are several stores, at least 1.
	// The settings workers and connections bound all of them together. Defaults to 4.
	Stores int `mapstructure:"stores"`

	// Shard is the part of the stores that this process works on, I/N with I from 0 to N-1. Empty
	// is all stores. Defaults to empty.
	Shard string `mapstructure:"shard"`

	// Page is how many rows are claimed, read and recorded at once, at most; 1 to 10000.
	// Defaults to 2000.
	Page int `mapstructure:"page"`

	// Lease is how long a silent runner keeps its claims, at least 3 s. The heartbeat is a third of
	// it. A silent process keeps the destinations of events as long, for a minute at most. Defaults
	// to 1 minute.
	Lease time.Duration `mapstructure:"lease"`

	// Grace is the time that running checks get after SIGTERM or a timeout. 0 gives none. Defaults
	// to 20 s.
	Grace time.Duration `mapstructure:"grace"`

	// StartTolerance is how long before a boundary a run waits for it, instead of running the slot
	// before. 0: it never waits. Defaults to 5 s.
	StartTolerance time.Duration `mapstructure:"start_tolerance"`

	// JobName is the Kubernetes Job's name, whose suffix gives the slot. Empty: the clock gives it.
	// Defaults to empty.
	JobName string `mapstructure:"job_name"`

	// PingURL is a URL that is called when runs begin, end and fail, as for healthchecks.io. Empty:
	// none. Defaults to empty.
	PingURL Endpoint `mapstructure:"ping_url"`
}

// Jobs says what may be enqueued.
type Jobs struct {
	// Horizon is how far ahead a check may be requested, more than 0. Defaults to 43800 h, 5 years.
	Horizon time.Duration `mapstructure:"horizon"`

	// MaxPayload is the largest payload in bytes that commands, the web UI and the API take, at most
	// 1048576, which is the database's limit. Defaults to 65536.
	MaxPayload int `mapstructure:"max_payload"`
}

// Events says where events go: those of rules, schedules and queries.
type Events struct {
	// Destination is where a forwarder sends the events of the outbox, a URL such as
	// https://example.com/hook. With outbox: they are sent only to events.destinations. Defaults to
	// outbox:.
	Destination Endpoint `mapstructure:"destination"`

	// Source is the CloudEvents source of events, a URI reference. Empty: prescient:/ and the uuid of the store. Defaults
	// to empty.
	Source string `mapstructure:"source"`

	// Secret signs webhooks and the requests of http jobs: whsec_ and base64, or several separated
	// by spaces. Empty: they are not signed. Defaults to empty.
	Secret Secret `mapstructure:"secret"`

	// AllowedNetworks are private and other special addresses that webhooks, http jobs and receivers
	// may connect to, such as 10.0.0.0/8, ::1. Defaults to none.
	AllowedNetworks Prefixes `mapstructure:"allowed_networks"`

	// MaxRefusals is how many refusals of a destination make an event a dead letter. 0: there is no
	// limit. Defaults to 0.
	MaxRefusals int `mapstructure:"max_refusals"`

	// MaxRefusedFor is how long after its first refusal a further one makes an event a dead letter.
	// 0: there is no limit. Defaults to 0.
	MaxRefusedFor time.Duration `mapstructure:"max_refused_for"`

	// AfterDeadLetter says whether later events of the subject of a dead letter wait: hold makes them
	// wait, which keeps their order, and continue does not. Defaults to hold.
	AfterDeadLetter string `mapstructure:"after_dead_letter"`
}

// Server is the HTTP server of prescient serve and of the daemon.
type Server struct {
	// Listen is where the server listens, host:port or :port. An address that other machines reach
	// needs a token for pages and API. Empty: serve listens on localhost:8088, and the daemon does
	// not. Defaults to empty.
	Listen string `mapstructure:"listen"`

	// Token is the bearer token of operators, at least 16 characters, or several separated by
	// spaces. A name and a colon may precede a token, as in ops:0123456789abcdef: actions are
	// recorded under the name. Empty: no request can act. Defaults to empty.
	Token Secret `mapstructure:"token"`

	// ReadToken is the same for readers. Without it, every user of this machine may read a server
	// that listens only locally. Without either, a daemon that other machines reach serves only health and
	// metrics. Defaults to empty.
	ReadToken Secret `mapstructure:"read_token"`

	// Hosts are names that the server answers to, separated by commas, besides localhost, addresses,
	// the name of the machine and, in Kubernetes, names of services. Defaults to empty.
	Hosts Hosts `mapstructure:"hosts"`

	// Proxy is the scheme of URLs of a proxy in front of the server: http, https, or off without a
	// proxy. Behind a proxy, a token is needed. Defaults to off.
	Proxy string `mapstructure:"proxy"`

	// ProxyNetworks are addresses of proxies whose X-Forwarded-For counts, such as 10.0.0.0/8, ::1.
	// Defaults to none.
	ProxyNetworks Prefixes `mapstructure:"proxy_networks"`
}

// Spool says where prescient spool works.
type Spool struct {
	// Dir is the directory of the spool. Defaults to empty.
	Dir string `mapstructure:"dir"`
}

// History says what happens to finished rows.
type History struct {
	// Retention is how long to keep what ended, and events that every consumer has read. Daemons, catch-up, and
	// run with --catch-up drop what is older; jobs prune and events prune do so by hand. 0: everything stays. Defaults
	// to 0.
	Retention time.Duration `mapstructure:"retention"`
}

// Alerts says who is told of findings of status.
type Alerts struct {
	// Receiver is the receiver, of receivers, that runs and daemons tell of each finding of status when it
	// appears, and when it is over. Empty: none. Defaults to empty.
	Receiver string `mapstructure:"receiver"`

	// Repeat is how long after a message a finding that stays is told again, at least 1 m. Defaults to 4 h.
	Repeat time.Duration `mapstructure:"repeat"`
}

// Metrics says where metrics go, besides those that a daemon serves.
type Metrics struct {
	// File is the file for the metrics of run and catch-up, which node_exporter reads. Its name
	// ends in .prom. Empty: none. Defaults to empty.
	File string `mapstructure:"file"`
}

// Log says what the log on stderr looks like.
type Log struct {
	// Level is the least severe level that is logged: debug, info, warn or error. Defaults to info.
	Level string `mapstructure:"level"`

	// Format is the format of the log: text or json. Defaults to text.
	Format string `mapstructure:"format"`
}

// Default returns the configuration of an empty environment without a file or a flag. It is valid.
func Default() Config {
	return Config{
		Database: Database{Schema: "prescient", Prepare: "auto"},
		Run: Run{
			Workers:        64,
			Connections:    8,
			Stores:         4,
			Page:           2000,
			Lease:          time.Minute,
			Grace:          20 * time.Second,
			StartTolerance: 5 * time.Second,
		},
		Jobs:   Jobs{Horizon: 5 * 365 * 24 * time.Hour, MaxPayload: 64 << 10},
		Server: Server{Proxy: "off"},
		Events: Events{Destination: NewEndpoint("outbox:"), AfterDeadLetter: "hold"},
		Alerts: Alerts{Repeat: 4 * time.Hour},
		Log:    Log{Level: "info", Format: "text"},
	}
}
