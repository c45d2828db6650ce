package rule

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// File is a file of rules. The zero value has none.
type File struct{ file rule.File }

// Problem is a mistake in a file of rules: its Line, Rule and Field, as far as they are known, and a
// Message. Find it with errors.As.
type Problem = rule.Problem

// Parse reads a file of rules, in YAML or JSON, and the files of holidays that it names, whose paths are
// relative to the working directory. The error joins a [Problem] for each mistake.
func Parse(in io.Reader) (File, error) { return ParseIn(in, "") }

// ParseIn is Parse with paths relative to a directory.
func ParseIn(in io.Reader, dir string) (File, error) {
	file, err := rule.ParseIn(in, dir)
	if err != nil {
		return File{}, err
	}
	return File{file: file}, nil
}

// Apply creates the triggers of the rules in a file, and lets the rows of their tables wait. Rules that
// the file does not have stay as they are. schema holds prescient's tables; the zero value means "prescient".
//
// It is idempotent. If it is interrupted, the next call goes on where it was. Any number of processes may
// call it at the same time. It changes nothing, and returns an error that says what to write into the
// rule, if steps of rows have passed and a rule does not say what happens to them. The error joins a
// [Problem] for each mistake in the file.
func Apply(ctx context.Context, db pgsql.Pool, schema pgsql.Schema, file File) error {
	store, err := rulestore.New(ctx, db, rulestore.Config{Schema: schema.String()})
	if err != nil {
		return err
	}
	_, err = store.Apply(ctx, file.file, nil)
	return err
}

// DefaultTimeout is the default limit of the query for a page of keys.
const DefaultTimeout = rule.DefaultTimeout

// CheckConfig configures the checks of rules. DB and Publisher must be set; every other zero field means
// its default.
type CheckConfig struct {
	// DB returns the pool on which checks read the tables of rules, which must stay open. It must be
	// for the database of the runner. While DB returns an error, every row gets it. Do not use the
	// runner's pool: a slow query would hold connections that the runner needs to keep its leases.
	DB func(ctx context.Context) (pgsql.Pool, error)
	// Publisher gets the events of steps, in the transaction that records the check.
	Publisher event.TxPublisher
	// Source is that of the events, a URI reference. Defaults to that of the store, see event.Event.
	Source string
	// Schema holds the rules. Defaults to "prescient".
	Schema pgsql.Schema
	// Logger is told if a table is locked by another session, whose checks then wait for the next slot.
	// Defaults to slog.Default.
	Logger *slog.Logger
	// Timeout limits the query for a page of keys. Defaults to DefaultTimeout.
	Timeout time.Duration
}

// Register makes a registry know the rules that were applied to the database of a run. Each run learns
// them at the beginning of its slot. A job of the registry keeps its name: a rule with the same name is
// not checked. Returns an error that names a missing field.
func Register(registry *jobs.Registry, cfg CheckConfig) error {
	return rule.Register(registry, rule.CheckConfig(cfg))
}
