package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/configcmd"
	"github.com/prescient-go/prescient/cmd/internal/devdbcmd"
	"github.com/prescient-go/prescient/cmd/internal/installcmd"
	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/cmd/internal/spoolcmd"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/metrics"
)

// App is the command line of one binary, with what its commands share. It runs one command line at
// a time.
type App struct {
	// Name of the binary in help and messages. Default: the last element of os.Args[0].
	Name string
	// In is read if a flag has the value "-". Err receives the log and progress. Default: those of
	// the process.
	In  io.Reader
	Err io.Writer
	printer

	registry *jobs.Registry
	extra    []func(*App) *cobra.Command
	global   bool // the log is slog's default, too

	config   config.Loaded
	log      *slog.Logger
	where    string                // flags that say which schema it is, see self
	command  string                // that runs, such as "orders jobs cancel"
	tail     *tail                 // of the log
	quiet    bool                  // success is not told of
	verbose  bool                  // but in one line, where something was done
	metrics  *metrics.Metrics      // of the command, where it has any
	broken   bool                  // a query of sql_jobs cannot run
	unhelped error                 // help could not be printed
	mentions func() *regexp.Regexp // of commands in texts that do not know the binary's name
	reached  bool                  // the command line was understood: a command's own function was called
	scope    multistore.Scope      // which stores the command works on
}

// New returns the command line of a binary with the jobs of registry. extra adds the binary's own
// commands.
func New(registry *jobs.Registry, extra ...func(*App) *cobra.Command) *App {
	return &App{
		Name: filepath.Base(os.Args[0]), In: os.Stdin, Err: os.Stderr, printer: printer{Out: os.Stdout},
		registry: registry, extra: extra, tail: new(tail),
	}
}

// Config returns the settings. They are loaded when a command's RunE or Run is called, not before.
func (a *App) Config() config.Config { return a.config.Config }

// Log returns the log, which writes to Err, in the format and with the level of the settings.
func (a *App) Log() *slog.Logger { return a.log }

// Registry returns the jobs of the binary.
func (a *App) Registry() *jobs.Registry { return a.registry }

// Run runs the command line args, which lacks the binary's name. It prints errors to Err before it
// returns.
func (a *App) Run(ctx context.Context, args []string) Code {
	a.quiet, a.verbose, a.broken, a.unhelped, a.where, a.tail = false, false, false, nil, "", new(tail)
	a.setLog(config.Default().Log)
	a.reached = false
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		a.complete(root)
	}
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	code := codeOf(err)
	if err != nil && !a.reached {
		code, err = Usage, fmt.Errorf("%s; see %s --help", explainUsage(c, err.Error()), c.CommandPath())
	}
	if err == nil && a.unhelped != nil {
		code, err = Failure, a.unhelped
	}
	a.complain(ctx, c, args, code, err)
	return code
}

// explainUsage rewrites the library's message about a command line in plain words.
func explainUsage(c *cobra.Command, text string) string {
	// The library suggests commands over several lines.
	suggestions := regexp.MustCompile(`\n\nDid you mean this\?\n(\t\S+\n)+`)
	unknown := regexp.MustCompile(`^unknown command "([a-z-]+)" for ".*"`)
	required := regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)
	missing := regexp.MustCompile(`^required flag\(s\) "(.*)" not set$`)
	number := regexp.MustCompile(`strconv\.(ParseInt|Atoi): parsing "[^"]*": invalid syntax`)
	truth := regexp.MustCompile(`strconv\.ParseBool: parsing "[^"]*": invalid syntax`)
	exclusive := regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(\S+) (\S+)\] were all set$`)

	if !c.HasSubCommands() { // an argument of a team's own command, which takes none
		argument := regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*") for ".*"$`)
		text = argument.ReplaceAllString(text, "unexpected argument $1: want nothing more")
	}
	if m := unknown.FindStringSubmatch(text); m != nil {
		if below := namedBelow(c, m[1]); len(below) > 0 {
			return m[0] + cli.DidYouMean(below)
		}
	}
	text = suggestions.ReplaceAllStringFunc(text, func(list string) string { return cli.DidYouMean(strings.Fields(list)[4:]) })
	text = required.ReplaceAllStringFunc(text, func(list string) string { return "give " + oneOf(strings.Fields(required.FindStringSubmatch(list)[1])) })
	text = missing.ReplaceAllStringFunc(text, func(list string) string {
		return "missing --" + strings.ReplaceAll(missing.FindStringSubmatch(list)[1], `", "`, " and --")
	})
	text = number.ReplaceAllString(text, "want a whole number")
	text = truth.ReplaceAllString(text, "want true or false")
	return exclusive.ReplaceAllString(text, "--$1 and --$2 exclude each other")
}

// namedBelow returns the subcommands with this name, as a user types them: "install crontab" for
// crontab.
func namedBelow(root *cobra.Command, name string) (list []string) {
	for _, group := range root.Commands() {
		for _, c := range group.Commands() {
			if c.Name() == name {
				list = append(list, group.Name()+" "+name)
			}
		}
	}
	return list
}

// oneOf joins flags with commas, and with "or" before the last one.
func oneOf(flags []string) string {
	last := len(flags) - 1
	if last == 0 {
		return "--" + flags[0]
	}
	return "--" + strings.Join(flags[:last], ", --") + " or --" + flags[last]
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:           a.Name,
		Short:         "Run the checks that are due, slot by slot, on PostgreSQL",
		Long:          "Run the checks that are due, slot by slot, on PostgreSQL.\n\n" + codesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	config.Flags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&a.scope.Chosen, "store", "", "work only on the store with this `NAME`, or on the stores of a pattern; see stores in the configuration file")
	versionFlag(root)
	root.CompletionOptions.DisableDefaultCmd = true // see install completion
	root.InitDefaultHelpFlag()                      // otherwise the word after --help would be its value
	f := a.factory()
	addGroup(root, "Run", newRun(a), newCatchUp(a), newDaemon(a), newServe(a), spoolcmd.NewCmdSpool(f))
	addGroup(root, "Look", newStatus(a), newWhy(a), newPlan(a), newDoctor(a))
	addGroup(root, "Read and change", newJobs(a), newSchedules(a), newSlots(a), newEvents(a), newStores(a))
	addGroup(root, "Set up", newMigrate(a), installcmd.NewCmdInstall(f), configcmd.NewCmdConfig(f), devdbcmd.NewCmdDevDB(f))
	root.AddCommand(newFlagsTopic())
	for _, command := range a.extra {
		root.AddCommand(command(a))
	}
	help := newHelp(root)
	root.SetHelpCommand(help)
	root.SetHelpFunc(a.help)
	root.SetFlagErrorFunc(cli.SuggestFlags)
	a.mentions = sync.OnceValue(func() *regexp.Regexp { return mentions(root) })
	a.prepare(root)
	a.prepare(help)
	return root
}

// mentions returns a pattern for commands of the stock binary that a text mentions.
func mentions(root *cobra.Command) *regexp.Regexp {
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return regexp.MustCompile(`\bprescient (` + strings.Join(names, "|") + `)\b`)
}

// named puts the binary's own name before the commands that a text mentions.
func (a *App) named(text string) string {
	if a.self() == "prescient" {
		return text
	}
	return a.mentions().ReplaceAllString(text, strings.ReplaceAll(a.self(), "$", "$$")+" $1")
}

// self returns the words that call the binary again, for the same schema.
func (a *App) self() string { return a.Name + a.where }

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
func (a *App) unseenFile(fs *pflag.FlagSet) string {
	file := a.config.File
	if f := fs.Lookup("config"); f != nil && f.Changed || os.Getenv("PRESCIENT_CONFIG") == "" || file == installcmd.UsualConfig || a.errIsTerminal() {
		return ""
	}
	return " --config " + spoken.Word(file)
}

// prepare makes a command and its subcommands load the settings first, and puts the binary's name
// into their help.
func (a *App) prepare(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.prepare(sub)
	}
	for _, text := range []*string{&c.Short, &c.Long, &c.Example} {
		*text = a.named(*text)
	}
	if !c.Runnable() {
		return
	}
	run, plain := c.RunE, c.Run
	c.RunE = func(c *cobra.Command, args []string) error {
		a.reached = true
		if err := a.load(c); err != nil && c.Annotations[cli.NeedsNoConfig] == "" {
			return err
		}
		if run != nil {
			return run(c, args)
		}
		plain(c, args)
		return nil
	}
}

func (a *App) load(c *cobra.Command) error {
	var err error
	a.command, a.where = c.CommandPath(), whereFlags(c.Flags())
	a.config, err = config.Load(c.Flags())
	if err != nil {
		return &ExitError{Code: Usage, Err: fmt.Errorf("configuration: %w", err)}
	}
	a.where = a.unseenFile(c.Flags()) + a.where
	if err := a.chooseStores(c); err != nil {
		return err
	}
	a.quiet = c.Annotations[quietInPipes] != "" && a.origin("log.level") == "default" && !a.errIsTerminal()
	a.setLog(a.config.Config.Log)
	for _, warning := range a.config.Warnings {
		a.log.WarnContext(c.Context(), "configuration", "problem", a.named(warning))
	}
	return nil
}

func (a *App) setLog(cfg config.Log) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // config has checked it
	if a.quiet {
		level = slog.LevelWarn
	}
	a.log = a.logger(cfg.Format, level)
	if a.global {
		slog.SetDefault(a.log)
	}
}

// logger returns a log to Err from a level on. It keeps the end of the log for a failed ping.
func (a *App) logger(format string, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var handler slog.Handler = slog.NewTextHandler(a.Err, opts)
	if format == "json" {
		handler = slog.NewJSONHandler(plain.Writer(a.Err), opts)
	}
	kept := slog.NewTextHandler(a.tail, &slog.HandlerOptions{Level: min(level, slog.LevelInfo), ReplaceAttr: readable})
	log := slog.New(slog.NewMultiHandler(handler, kept))
	if a.scope.Store != "" {
		log = log.With("store", a.scope.Store)
	}
	return log
}

// quietInPipes annotates a command that cron starts. If no log level is set and stderr is no
// terminal, it does not log success, which cron would mail.
const quietInPipes = "quiet-in-pipes"

// verboseFlag adds --verbose to such a command.
func (a *App) verboseFlag(c *cobra.Command) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[quietInPipes] = "yes"
	c.Flags().BoolVarP(&a.verbose, "verbose", "v", false, "log one line that sums up the work, even if stderr is no terminal")
	return c
}

// done returns the log for the results of a command. A quiet command logs them only with --verbose,
// and only if it did something.
func (a *App) done(something bool) *slog.Logger {
	if a.quiet && a.verbose && something {
		return a.logger(a.Config().Log.Format, slog.LevelInfo)
	}
	return a.log
}

func (a *App) errIsTerminal() bool {
	file, ok := a.Err.(*os.File)
	return ok && isTerminal(file)
}

// readable logs instants in UTC and durations as text, in JSON too.
func readable(_ []string, attr slog.Attr) slog.Attr {
	switch attr.Value.Kind() {
	case slog.KindTime:
		attr.Value = slog.TimeValue(attr.Value.Time().UTC())
	case slog.KindDuration:
		attr.Value = slog.StringValue(attr.Value.Duration().String())
	}
	return attr
}

// complain reports why a command did not succeed, as plain text or as a line of a JSON log.
func (a *App) complain(ctx context.Context, c *cobra.Command, args []string, code Code, err error) {
	if exit, ok := errors.AsType[*ExitError](err); err == nil || ok && exit.Err == nil {
		return
	}
	lines := slices.Compact(strings.Split(err.Error(), "\n")) // a full disk repeats its error for each file
	text := strings.Join(lines, "\n")
	if ctx.Err() != nil { // by Ctrl-C, or by a service manager
		text = interrupted.ReplaceAllString(text, "interrupted")
	}
	text = driverPrefix.ReplaceAllString(text, "")
	text = redact(a.named(text+hint(err)+a.refusal(err)), args)
	if a.Config().Log.Format == "json" {
		a.log.ErrorContext(ctx, "command failed", "command", c.CommandPath(), "exit_code", int(code), "error", text)
		return
	}
	_, _ = fmt.Fprintf(a.Err, "%s: %s\n", c.CommandPath(), plain.Text(text))
}

// driverPrefix matches what the driver puts before the server's message.
var driverPrefix = regexp.MustCompile(`\bpq: `)

// interrupted matches the end of an error of a statement that was cancelled.
var interrupted = regexp.MustCompile(`pq: canceling statement due to user request \(57014\)$|context canceled$`)

// hint returns the database's hint about an error, or advice that the database lacks.
func hint(err error) string {
	answer, ok := errors.AsType[*pq.Error](err)
	switch {
	case !ok || answer.Code == pqerror.UndefinedFunction: // its hint is about types, but the schema is missing
		return ""
	case answer.Code == pqerror.UndefinedFile && strings.HasPrefix(answer.Message, "could not load library"):
		return "; if the files of PostgreSQL were replaced while it runs, restart it; the private one by: prescient dev-db stop"
	case answer.Hint != "":
		return "; " + answer.Hint
	}
	return ""
}

// secretive matches the part of an argument that may hold a password: from a scheme on, or from the
// name of a password on.
var secretive = regexp.MustCompile(`(?is)[a-z]+://.*@.*|(passw\w*|pwd)\s*=.*`)

// redact masks in a message the passwords of the command line's arguments, because messages quote
// arguments.
func redact(text string, args []string) string {
	for _, arg := range args {
		secret := secretive.FindString(arg)
		if secret == "" {
			continue
		}
		shown := config.Redact(secret)
		quoted := strconv.Quote(secret)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], shown)
		text = strings.ReplaceAll(text, secret, shown)
	}
	return text
}
