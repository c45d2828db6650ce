package config

import (
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// HTTPJob binds a job to a service, which answers for the rows that are due; see package jobs/httpjob.
type HTTPJob struct {
	// Name is the job_exec, 1 to 200 bytes. It must be set.
	Name string `mapstructure:"name"`

	// URL is where the rows are posted to, http or https. It must be set.
	URL Endpoint `mapstructure:"url"`

	// Secret signs the requests, like events.secret. Default: empty, events.secret.
	Secret Secret `mapstructure:"secret"`

	// Timeout limits one request, with all of its tries; more than 0. Default: 30 s.
	Timeout time.Duration `mapstructure:"timeout"`

	// BatchSize limits the rows of one request, 1 to 10000. Default: 500.
	BatchSize int `mapstructure:"batch_size"`

	// Concurrency is how many requests one runner has open at once, at least 1. Default: 4.
	Concurrency int `mapstructure:"concurrency"`

	Options
}

// SQLJob binds a job to a query, which finds the rows that need something done; see package jobs/sqljob.
type SQLJob struct {
	// Name is the job_exec, 1 to 200 bytes. It must be set.
	Name string `mapstructure:"name"`

	// Query gets the keys of a batch of entities as $1. It must be set.
	Query string `mapstructure:"query"`

	// Database is where the query runs. Default: empty, the database of the jobs.
	Database URL `mapstructure:"database"`

	// Role is the role that the query runs as. The user of the database must be a member of it.
	// Defaults to empty, the user itself.
	Role string `mapstructure:"role"`

	// Type is the type of the events. Default: empty, the job's name.
	Type string `mapstructure:"type"`

	// Timeout is how long the query may run, more than 0. Default: 30 s.
	Timeout time.Duration `mapstructure:"timeout"`

	// BatchSize limits the keys of one query. Default: 0, as many as run.page.
	BatchSize int `mapstructure:"batch_size"`

	// Concurrency limits how many batches one runner checks at once, at least 1. Default: 2.
	Concurrency int `mapstructure:"concurrency"`

	Options
}

// Options are the options of a job that is bound to a service or to a query; see package jobs.
type Options struct {
	// MaxChecks is how many checks a row gets, at least 1. Default: 5.
	MaxChecks int `mapstructure:"max_checks"`

	// Retry is how many errors in a row are tried again. Default: 5.
	Retry int `mapstructure:"retry"`

	// Deadline ends a row unchecked when its check cannot start within that long after its slot. Default: 0, never.
	Deadline time.Duration `mapstructure:"deadline"`

	// SLA is how long after its slot a check is to begin at the latest. Default: 0, none.
	SLA time.Duration `mapstructure:"sla"`

	// Within says that any slot will do for the next check that is this much after the instant asked for at the most, in
	// whole seconds, up to 366 days. Default: 0, the first slot.
	Within time.Duration `mapstructure:"within"`
}

var (
	defaultHTTPJob = HTTPJob{Timeout: 30 * time.Second, BatchSize: 500, Concurrency: 4, Options: defaultOptions}
	defaultSQLJob  = SQLJob{Timeout: 30 * time.Second, Concurrency: 2, Options: defaultOptions}
	defaultOptions = Options{MaxChecks: 5, Retry: 5}
)

const (
	wantName    = "the job_exec it binds, 1 to 200 bytes"
	wantTimeout = "a duration of more than 0, such as 30s"
	wantCount   = "a whole number, at least 1"
	wantRetry   = "a whole number, 0 for none"
	wantLimit   = "a duration, such as 30m; 0 for none"
	wantWithin  = "a duration of whole seconds, such as 1h, up to 366 days (8784h); 0 for the first slot"
)

// httpRules has one entry for every setting of an HTTPJob.
var httpRules = withOptions(map[string]rule[HTTPJob]{
	"name": {wantName, func(j HTTPJob) bool { return isName(j.Name) }},
	"url": {
		"an http:// or https:// URL of the service (with : / ? # @ in names and passwords percent-encoded)",
		func(j HTTPJob) bool {
			u, err := url.Parse(j.URL.Reveal())
			return isEndpoint(j.URL) && err == nil && (u.Scheme == "http" || u.Scheme == "https")
		},
	},
	"secret":  {rules["events.secret"].want, func(j HTTPJob) bool { return areSigningSecrets(j.Secret) }},
	"timeout": {wantTimeout, func(j HTTPJob) bool { return j.Timeout > 0 }},
	"batch_size": {"a whole number from 1 to 10000", func(j HTTPJob) bool {
		return 1 <= j.BatchSize && j.BatchSize <= 10000
	}},
	"concurrency": {wantCount, func(j HTTPJob) bool { return j.Concurrency >= 1 }},
}, func(j HTTPJob) Options { return j.Options })

// sqlRules has one entry for every setting of an SQLJob.
var sqlRules = withOptions(map[string]rule[SQLJob]{
	"name":        {wantName, func(j SQLJob) bool { return isName(j.Name) }},
	"query":       {"a query that takes $1::text[]", func(j SQLJob) bool { return strings.TrimSpace(j.Query) != "" }},
	"database":    {rules["database.url"].want, func(j SQLJob) bool { return isDatabase(j.Database) }},
	"role":        {"a role of the database", anyValue[SQLJob]},
	"type":        {"a text", anyValue[SQLJob]},
	"timeout":     {wantTimeout, func(j SQLJob) bool { return j.Timeout > 0 }},
	"batch_size":  {"a whole number, 0 for as many as run.page", func(j SQLJob) bool { return j.BatchSize >= 0 }},
	"concurrency": {wantCount, func(j SQLJob) bool { return j.Concurrency >= 1 }},
}, func(j SQLJob) Options { return j.Options })

// optionRules has one entry for every setting of Options. The settings are read in the order of its fields.
var optionRules = map[string]rule[Options]{
	"max_checks": {wantCount, func(o Options) bool { return o.MaxChecks >= 1 }},
	"retry":      {wantRetry, func(o Options) bool { return o.Retry >= 0 }},
	"deadline":   {wantLimit, anyValue[Options]},
	"sla":        {wantLimit, anyValue[Options]},
	"within":     {wantWithin, func(o Options) bool { return isWithin(o.Within) }},
}

// withOptions adds the rules of the options of a job to its own.
func withOptions[T any](rules map[string]rule[T], of func(T) Options) map[string]rule[T] {
	for name, r := range optionRules {
		rules[name] = rule[T]{r.want, func(job T) bool { return r.holds(of(job)) }}
	}
	return rules
}

func isWithin(window time.Duration) bool {
	return 0 <= window && window <= 366*24*time.Hour && window%time.Second == 0
}

func isName(name string) bool {
	return 1 <= len(name) && len(name) <= 200 && utf8.ValidString(name) && !strings.Contains(name, "\x00")
}
