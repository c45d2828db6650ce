package config

import (
	"encoding/base64"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/uri"
)

// rule says what a setting must be: in words for the operator, and as a test of the configuration,
// or of the list's entry, that has the value.
type rule[T any] struct {
	want  string
	holds func(c T) bool
}

var (
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	hostNames  = regexp.MustCompile(`^[A-Za-z0-9.-]+( *, *[A-Za-z0-9.-]+)*$`)
	partOf     = regexp.MustCompile(`^([0-9]{1,9}/[1-9][0-9]{0,8})?$`)
	tokens     = regexp.MustCompile(`^([!-~]{16,}( +[!-~]{16,})*)?$`)
)

// maxName is the maximum length of a name, in PostgreSQL as in Kubernetes. It is not part of the
// expressions: it would make them large, and every process compiles them at its start.
const maxName = 63

const wantNamed = wantTokens + ", each perhaps with a name and a colon before it"

const (
	wantHosts    = "names separated by commas, such as board.example.com"
	wantPrefixes = "IP addresses and CIDR prefixes separated by commas, such as 10.0.0.0/8, ::1"
)

const wantTokens = "empty, or at least 16 visible ASCII characters, or several such separated by spaces"

// rules has one entry for every key of Config.
var rules = map[string]rule[Config]{
	"database.url": {
		"a postgres:// URL (with : / ? # @ in names and passwords percent-encoded), key=value pairs, or embedded:",
		func(c Config) bool { return isDatabase(c.Database.URL) },
	},
	"database.schema": {
		"at most 63 lower-case letters, digits and _, not starting with a digit or pg_",
		func(c Config) bool {
			name := c.Database.Schema
			return schemaName.MatchString(name) && len(name) <= maxName && !strings.HasPrefix(name, "pg_")
		},
	},
	"database.prepare": {
		"auto, on or off",
		func(c Config) bool { return slices.Contains([]string{"auto", "on", "off"}, c.Database.Prepare) },
	},
	"slots.width": {
		"0 for the database's width, or whole seconds that divide 24h, such as 15m",
		func(c Config) bool {
			w := c.Slots.Width
			return w == 0 || w%time.Second == 0 && (24*time.Hour)%w == 0
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
	"run.stores": {
		"a whole number, at least 1",
		func(c Config) bool { return c.Run.Stores >= 1 },
	},
	"run.shard": {
		"empty, or I/N for shard I of N with I from 0 to N-1, such as 0/4",
		func(c Config) bool { return isShard(c.Run.Shard) },
	},
	"run.page": {
		"a whole number of rows from 1 to 10000",
		func(c Config) bool { return 1 <= c.Run.Page && c.Run.Page <= 10000 },
	},
	"run.lease": {
		"a duration of at least 3s, such as 1m",
		func(c Config) bool { return c.Run.Lease >= 3*time.Second },
	},
	"run.grace":           {"a duration, such as 20s", anyValue[Config]},
	"run.start_tolerance": {"a duration, such as 5s", anyValue[Config]},
	"run.job_name":        {"a text", anyValue[Config]},
	"run.ping_url": {
		"an http or https URL",
		func(c Config) bool { return c.Run.PingURL == Endpoint{} || isHTTPURL(c.Run.PingURL.Reveal()) },
	},
	"jobs.horizon": {
		"a duration of more than 0, such as 1825d",
		func(c Config) bool { return c.Jobs.Horizon > 0 },
	},
	"jobs.max_payload": {
		"a whole number of bytes from 1 to 1048576, which is what the database takes as text",
		func(c Config) bool { return c.Jobs.MaxPayload >= 1 && c.Jobs.MaxPayload <= 1<<20 },
	},
	"events.destination": {
		"a URL such as outbox:, stdout:, file:///var/log/events.jsonl or https://example.com/hook " +
			"(with : / ? # @ in names and passwords percent-encoded)",
		func(c Config) bool { return isEndpoint(c.Events.Destination) },
	},
	"events.source": {
		"empty, or a URI reference, such as https://shop.example.com/orders",
		func(c Config) bool { return c.Events.Source == "" || uri.IsReference(c.Events.Source) },
	},
	"events.secret": {
		`empty, or "whsec_" and the base64 of 24 to 64 bytes, or several such separated by spaces`,
		func(c Config) bool { return areSigningSecrets(c.Events.Secret) },
	},
	"events.allowed_networks": {wantPrefixes, anyValue[Config]},
	"events.max_refusals": {
		"a whole number of at least 0, such as 100",
		func(c Config) bool { return c.Events.MaxRefusals >= 0 && c.Events.MaxRefusals <= math.MaxInt32 },
	},
	"events.max_refused_for": {"a duration, such as 48h", anyValue[Config]},
	"events.after_dead_letter": {
		"hold or continue",
		func(c Config) bool {
			return c.Events.AfterDeadLetter == "hold" || c.Events.AfterDeadLetter == "continue"
		},
	},
	"server.listen": {
		"empty, or host:port, such as localhost:8088 or :8088",
		func(c Config) bool { return c.Server.Listen == "" || isHostPort(c.Server.Listen) },
	},
	"server.token":      {wantNamed, func(c Config) bool { return areNamedTokens(c.Server.Token.Reveal()) }},
	"server.read_token": {wantNamed, func(c Config) bool { return areNamedTokens(c.Server.ReadToken.Reveal()) }},
	"server.hosts":      {wantHosts, func(c Config) bool { return areHosts(string(c.Server.Hosts)) }},
	"server.proxy": {
		"off, http or https",
		func(c Config) bool { return slices.Contains([]string{"off", "http", "https"}, c.Server.Proxy) },
	},
	"server.proxy_networks": {wantPrefixes, anyValue[Config]},
	"spool.dir":             {"a directory", anyValue[Config]},
	"history.retention":     {"0 for everything, or a duration, such as 90d", anyValue[Config]},
	"alerts.receiver":       {"empty, or the name of a receiver of receivers, such as ops", anyValue[Config]},
	"alerts.repeat": {
		"a duration of at least 1m, such as 4h",
		func(c Config) bool { return c.Alerts.Repeat >= time.Minute },
	},
	"metrics.file": {
		"empty, or a file whose name ends in .prom, such as /var/lib/prometheus/node-exporter/prescient.prom",
		func(c Config) bool { return c.Metrics.File == "" || strings.HasSuffix(c.Metrics.File, ".prom") },
	},
	"log.level": {
		"debug, info, warn or error",
		func(c Config) bool { return slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) },
	},
	"log.format": {
		"text or json",
		func(c Config) bool { return c.Log.Format == "text" || c.Log.Format == "json" },
	},
}

func areHosts(text string) bool { return text == "" || hostNames.MatchString(text) }

// areNamedTokens is the rule of tokens that may have names.
func areNamedTokens(text string) bool {
	for token := range strings.FieldsSeq(text) {
		if name, rest, named := strings.Cut(token, ":"); named && name != "" && len(rest) < 16 {
			return false
		}
	}
	return tokens.MatchString(text)
}

// anyValue is the rule of a setting whose type says it all.
func anyValue[T any](T) bool { return true }

func isDatabase(u URL) bool {
	_, _, ok := redact(u.Reveal())
	return ok
}

func isEndpoint(e Endpoint) bool {
	_, _, ok := redactEndpoint(e.Reveal())
	u, err := uri.Parse(e.Reveal())
	lost := err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
		(u.Hostname() == "" || strings.Contains(u.Host, ",")) // such as https:/example.com
	return ok && !lost && e != Endpoint{}
}

func isHostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isHTTPURL tells whether a text is an http or https URL with a host.
func isHTTPURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// areSigningSecrets tells whether a text has the form of secrets of Standard Webhooks, separated by
// white space. An empty text has.
func areSigningSecrets(secrets Secret) bool {
	if secrets != (Secret{}) && strings.TrimSpace(secrets.Reveal()) == "" {
		return false
	}
	for secret := range strings.FieldsSeq(secrets.Reveal()) {
		encoded, found := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil || len(key) < 24 || len(key) > 64 {
			return false
		}
	}
	return true
}

// isShard reports whether a text is empty or I/N with I below N.
func isShard(text string) bool {
	index, count, divided := strings.Cut(text, "/")
	if !divided || !partOf.MatchString(text) {
		return text == ""
	}
	i, err := strconv.Atoi(index)
	n, wrong := strconv.Atoi(count)
	return err == nil && wrong == nil && i < n
}
