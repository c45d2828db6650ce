// Package factory has what the packages of commands share: the streams, the settings, the log and
// the stores of one command line. It knows no command.
package factory

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// UsualConfig is the configuration file of commands that are started with no environment.
const UsualConfig = "/etc/prescient/prescient.yaml"

// Factory is the program at work on one command line. A command that works on several stores gets a
// Factory for each of them. The settings and the log are known when a command runs, not before.
type Factory struct {
	// Name of the binary.
	Name string
	// In is read if a flag has the value "-".
	In io.Reader
	// Printer prints data on stdout.
	*output.Printer
	// Registry has the jobs of the binary.
	Registry *jobs.Registry
	*logs

	loaded   config.Loaded
	log      *slog.Logger
	store    Store
	many     bool   // the command works on several stores, and f is for none of them
	chosen   string // the value of --store
	sharded  bool   // only the stores of run.shard count
	pools    *Pools
	command  string                // that runs, such as "orders jobs cancel"
	where    string                // flags that say which schema it is, see Self
	mentions func() *regexp.Regexp // commands in texts that do not know the binary's name
}

// Run is the work of a command. A constructor gets it, so that a test sees what was read from
// arguments and flags.
type Run[Options any] func(ctx context.Context, f *Factory, o Options) error

// Open opens the file that a flag or an argument names; - is stdin. A file that cannot be opened, or is a folder, is an
// error of usage.
func (f *Factory) Open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(f.In), nil
	}
	file, err := os.Open(name) //nolint:gosec // the user's
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	if is, err := file.Stat(); err == nil && is.IsDir() {
		_ = file.Close()
		return nil, exit.Usagef("%s is a folder: name the file in it", name)
	}
	return file, nil
}

// Config configures New.
type Config struct {
	Name     string
	In       io.Reader
	Out, Err io.Writer
	Registry *jobs.Registry
	// Global makes the log slog's default, too.
	Global bool
	// Mentions returns a pattern for the commands that a text mentions. Optional.
	Mentions func() *regexp.Regexp
}

// New returns the Factory of a command line, with default settings.
func New(cfg Config) *Factory {
	f := &Factory{
		Name: cfg.Name, In: cfg.In, Printer: &output.Printer{Out: cfg.Out}, Registry: cfg.Registry,
		logs: &logs{err: cfg.Err, global: cfg.Global, tail: new(tail)}, mentions: cfg.Mentions,
	}
	f.Use(config.Loaded{Config: config.Default()})
	return f
}

// Use sets the settings, and makes the log and the pools that they describe.
func (f *Factory) Use(loaded config.Loaded) {
	f.loaded = loaded
	f.log = f.open(f.Config().Log, f.store.Name)
	f.pools = newPools(f.Config().Run, f.many, f.log)
}

// Close closes the pools. Call it when the command has ended.
func (f *Factory) Close() error { return f.pools.close() }

// Pools returns the connections of the command line.
func (f *Factory) Pools() *Pools { return f.pools }

// Flags adds the flags of every command.
func (f *Factory) Flags(fs *pflag.FlagSet) {
	config.Flags(fs)
	f.storesFlag(fs)
}

// Load loads the settings of a command that is about to run, and finds out which stores it works
// on.
func (f *Factory) Load(c *cobra.Command) error {
	f.command, f.where = c.CommandPath(), whereFlags(c.Flags())
	var err error
	f.loaded, err = config.Load(c.Flags())
	if err != nil {
		return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("configuration: %w", err)}
	}
	f.where = f.unseenFile(c.Flags()) + f.where
	if err := f.chooseStores(c); err != nil {
		return err
	}
	f.quiet = c.Annotations[quietInPipes] != "" && f.Origin("log.level") == "default" && !f.ErrIsTerminal()
	f.Use(f.loaded)
	if c.Annotations[patient] != "" {
		f.pools.Options = []pgsql.Option{pgsql.Patient()}
	}
	for _, warning := range f.loaded.Warnings {
		f.log.WarnContext(c.Context(), "configuration", "problem", f.Named(warning))
	}
	return nil
}

// LoadSilently loads the settings for the completion of a command line, and makes the log silent.
func (f *Factory) LoadSilently(fs *pflag.FlagSet) (err error) {
	f.log = slog.New(slog.DiscardHandler)
	f.loaded, err = config.Load(fs)
	return err
}

// Config returns the settings.
func (f *Factory) Config() config.Config { return f.loaded.Config }

// Loaded returns the settings with their sources, and the file that they were read from.
func (f *Factory) Loaded() config.Loaded { return f.loaded }

// Origin returns the source of a setting, such as a flag or a file.
func (f *Factory) Origin(key string) string {
	for _, entry := range f.loaded.Entries {
		if entry.Key == key {
			return entry.Origin
		}
	}
	return "default"
}

// Schema returns the schema that the command works on.
func (f *Factory) Schema() pgsql.Schema { return pgsql.Schema(f.Config().Database.Schema) }

// Command returns the words of the command that runs, such as "orders jobs cancel".
func (f *Factory) Command() string { return f.command }

// Self returns the words that call the binary again, for the same schema.
func (f *Factory) Self() string { return f.Name + f.where }

// Named puts the binary's own name before the commands that a text mentions.
func (f *Factory) Named(text string) string {
	if f.mentions == nil || f.Self() == "prescient" {
		return text
	}
	return f.mentions().ReplaceAllString(text, strings.ReplaceAll(f.Self(), "$", "$$")+" $1")
}

// whereFlags returns the flags of a command that choose the schema, quoted for a shell. It leaves
// out a URL, which would be longer than the advice.
func whereFlags(fs *pflag.FlagSet) (text string) {
	for _, name := range []string{"config", "schema"} {
		if f := fs.Lookup(name); f != nil && f.Changed {
			text += " --" + name + " " + spoken.Word(f.Value.String())
		}
	}
	return text
}

// unseenFile returns the --config flag for a file that only the environment names, if the command
// has no terminal. People read cron's mail and follow its advice in a shell without the crontab's
// environment.
func (f *Factory) unseenFile(fs *pflag.FlagSet) string {
	file := f.loaded.File
	if flag := fs.Lookup("config"); flag != nil && flag.Changed || os.Getenv("PRESCIENT_CONFIG") == "" ||
		file == UsualConfig || f.ErrIsTerminal() {
		return ""
	}
	return " --config " + spoken.Word(file)
}
