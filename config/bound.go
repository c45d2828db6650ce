package config

import (
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

	// Timeout is what the service gets for the rows of one page, more than 0. Default: 30 s.
	Timeout time.Duration `mapstructure:"timeout"`

	// Rows is how many rows one request has at the most, 1 to 10000. Default: 500.
	Rows int `mapstructure:"rows"`

	// Concurrency is how many requests one runner has open at once, at least 1. Default: 4.
	Concurrency int `mapstructure:"concurrency"`

	// MaxChecks is how many checks a row gets, at least 1. Default: 5.
	MaxChecks int `mapstructure:"max_checks"`

	// Retry is how many errors in a row are tried again. Default: 5.
	Retry int `mapstructure:"retry"`

	// Within says that any slot will do for the next check that is this much after the instant asked for at the most, in
	// whole seconds, up to 366 days. Default: 0, the first slot.
	Within time.Duration `mapstructure:"within"`
}

// SQLJob binds a job to a query, which finds the rows that need something done; see package jobs/sqljob.
type SQLJob struct {
	// Name is the job_exec, 1 to 200 bytes. It must be set.
	Name string `mapstructure:"name"`

	// Query gets the keys of a page of entities as $1. It must be set.
	Query string `mapstructure:"query"`

	// Database is where the query runs. Default: empty, the database of the jobs.
	Database URL `mapstructure:"database"`

	// Role is what the query runs as; the user of the database must be allowed to take it. Default: empty, that user.
	Role string `mapstructure:"role"`

	// Type is the type of the events. Default: empty, the job's name.
	Type string `mapstructure:"type"`

	// Timeout is how long the query may run, more than 0. Default: 30 s.
	Timeout time.Duration `mapstructure:"timeout"`

	// Concurrency is how many pages one runner has in hand at once, at least 1. Default: 2.
	Concurrency int `mapstructure:"concurrency"`

	// MaxChecks is how many checks a row gets, at least 1. Default: 5.
	MaxChecks int `mapstructure:"max_checks"`

	// Retry is how many errors in a row are tried again. Default: 5.
	Retry int `mapstructure:"retry"`

	// Within says that any slot will do for the next check that is this much after the instant asked for at the most, in
	// whole seconds, up to 366 days. Default: 0, the first slot.
	Within time.Duration `mapstructure:"within"`
}

var (
	defaultHTTPJob = HTTPJob{Timeout: 30 * time.Second, Rows: 500, Concurrency: 4, MaxChecks: 5, Retry: 5}
	defaultSQLJob  = SQLJob{Timeout: 30 * time.Second, Concurrency: 2, MaxChecks: 5, Retry: 5}
)

const (
	wantName    = "the job_exec it binds, 1 to 200 bytes"
	wantTimeout = "a duration of more than 0, such as 30s"
	wantCount   = "a whole number, at least 1"
	wantRetry   = "a whole number, 0 for none"
	wantWithin  = "a duration of whole seconds, such as 1h, up to 366 days (8784h); 0 for the first slot"
)

// httpRules has one entry for every setting of an HTTPJob.
var httpRules = map[string]rule[HTTPJob]{
	"name": {wantName, func(j HTTPJob) bool { return isJobName(j.Name) }},
	"url": {
		"an http:// or https:// URL of the service (with : / ? # @ in names and passwords percent-encoded)",
		func(j HTTPJob) bool {
			url := j.URL.Reveal()
			return isEndpoint(j.URL) && (strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://"))
		},
	},
	"secret":      {rules["events.secret"].want, func(j HTTPJob) bool { return areSigningSecrets(j.Secret) }},
	"timeout":     {wantTimeout, func(j HTTPJob) bool { return j.Timeout > 0 }},
	"rows":        {"a whole number from 1 to 10000", func(j HTTPJob) bool { return 1 <= j.Rows && j.Rows <= 10000 }},
	"concurrency": {wantCount, func(j HTTPJob) bool { return j.Concurrency >= 1 }},
	"max_checks":  {wantCount, func(j HTTPJob) bool { return j.MaxChecks >= 1 }},
	"retry":       {wantRetry, func(j HTTPJob) bool { return j.Retry >= 0 }},
	"within":      {wantWithin, func(j HTTPJob) bool { return isWithin(j.Within) }},
}

// sqlRules has one entry for every setting of an SQLJob.
var sqlRules = map[string]rule[SQLJob]{
	"name":        {wantName, func(j SQLJob) bool { return isJobName(j.Name) }},
	"query":       {"a query that takes $1::text[]", func(j SQLJob) bool { return strings.TrimSpace(j.Query) != "" }},
	"database":    {rules["database.url"].want, func(j SQLJob) bool { return isDatabase(j.Database) }},
	"role":        {"a role of the database", always[SQLJob]},
	"type":        {"a text", always[SQLJob]},
	"timeout":     {wantTimeout, func(j SQLJob) bool { return j.Timeout > 0 }},
	"concurrency": {wantCount, func(j SQLJob) bool { return j.Concurrency >= 1 }},
	"max_checks":  {wantCount, func(j SQLJob) bool { return j.MaxChecks >= 1 }},
	"retry":       {wantRetry, func(j SQLJob) bool { return j.Retry >= 0 }},
	"within":      {wantWithin, func(j SQLJob) bool { return isWithin(j.Within) }},
}

func isWithin(window time.Duration) bool {
	return 0 <= window && window <= 366*24*time.Hour && window%time.Second == 0
}

func isJobName(name string) bool {
	return 1 <= len(name) && len(name) <= 200 && utf8.ValidString(name) && !strings.Contains(name, "\x00")
}
