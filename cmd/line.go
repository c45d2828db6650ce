package cmd

import (
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/alertscmd"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/configcmd"
	"github.com/prescient-go/prescient/cmd/internal/devdbcmd"
	"github.com/prescient-go/prescient/cmd/internal/doctorcmd"
	"github.com/prescient-go/prescient/cmd/internal/eventscmd"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/installcmd"
	"github.com/prescient-go/prescient/cmd/internal/jobscmd"
	"github.com/prescient-go/prescient/cmd/internal/migratecmd"
	"github.com/prescient-go/prescient/cmd/internal/plancmd"
	"github.com/prescient-go/prescient/cmd/internal/receiverscmd"
	"github.com/prescient-go/prescient/cmd/internal/rulescmd"
	"github.com/prescient-go/prescient/cmd/internal/runcmd"
	"github.com/prescient-go/prescient/cmd/internal/schedulescmd"
	"github.com/prescient-go/prescient/cmd/internal/servecmd"
	"github.com/prescient-go/prescient/cmd/internal/slotscmd"
	"github.com/prescient-go/prescient/cmd/internal/spoolcmd"
	"github.com/prescient-go/prescient/cmd/internal/statuscmd"
	"github.com/prescient-go/prescient/cmd/internal/storescmd"
	"github.com/prescient-go/prescient/internal/seq"
)

// line is one command line.
type line struct {
	root    *cobra.Command
	args    []string
	reached bool  // it was understood: a command's own function was called
	helpErr error // help could not be printed
}

// newLine returns a command line with all commands, and makes it the one that a runs.
func (a *App) newLine() *line {
	l := &line{root: &cobra.Command{
		Use:           a.Name,
		Short:         "Run the checks that are due, slot by slot, on PostgreSQL",
		Long:          "Run the checks that are due, slot by slot, on PostgreSQL.\n\n" + codesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}}
	f := factory.New(factory.Config{
		Name: a.Name, In: a.In, Out: a.Out, Err: a.Err, Registry: a.registry, Global: a.global,
		Mentions: sync.OnceValue(func() *regexp.Regexp { return mentions(l.root) }),
	})
	f.Printed, a.f = a.printed, f
	root := l.root
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	f.Flags(root.PersistentFlags())
	versionFlag(root)
	root.CompletionOptions.DisableDefaultCmd = true // see install completion
	root.InitDefaultHelpFlag()                      // otherwise the word after --help would be its value
	addCommands(root, f)
	root.AddCommand(newFlagsTopic(), newJSONTopic())
	for _, command := range a.extra {
		root.AddCommand(command(a))
	}
	help := newHelp(root)
	root.SetHelpCommand(help)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { l.helpErr = writeHelp(f.Printer, c) })
	root.SetFlagErrorFunc(cli.SuggestFlags)
	reached := func(c *cobra.Command) error {
		if err := cli.Once(c, l.args); err != nil {
			return err
		}
		l.reached = true
		return nil
	}
	wrap(f, root, reached)
	wrap(f, help, reached)
	return l
}

// wrap makes a command and its subcommands load the settings before they run, and puts the binary's
// name into their help. reached is called when the library has understood the command line, and may refuse it.
func wrap(f *factory.Factory, c *cobra.Command, reached func(c *cobra.Command) error) {
	for _, sub := range c.Commands() {
		wrap(f, sub, reached)
	}
	for _, text := range []*string{&c.Short, &c.Long, &c.Example} {
		*text = f.Named(*text)
	}
	if !c.Runnable() {
		return
	}
	run, plain := c.RunE, c.Run
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := reached(c); err != nil {
			return err
		}
		if err := f.Load(c); err != nil && c.Annotations[cli.NeedsNoConfig] == "" {
			return err
		}
		if run != nil {
			return run(c, args)
		}
		plain(c, args)
		return nil
	}
}

// addCommands adds the commands of every binary to the root, in the groups of its help.
func addCommands(root *cobra.Command, f *factory.Factory) {
	addGroup(root, "Run", runcmd.NewCmdRun(f), runcmd.NewCmdCatchUp(f), runcmd.NewCmdDaemon(f), servecmd.NewCmdServe(f),
		spoolcmd.NewCmdSpool(f))
	addGroup(root, "Inspect", statuscmd.NewCmdStatus(f), statuscmd.NewCmdWhy(f), plancmd.NewCmdPlan(f),
		doctorcmd.NewCmdDoctor(f))
	addGroup(root, "Read and change", jobscmd.NewCmdJobs(f), rulescmd.NewCmdRules(f), schedulescmd.NewCmdSchedules(f),
		slotscmd.NewCmdSlots(f),
		eventscmd.NewCmdEvents(f), receiverscmd.NewCmdReceivers(f),
		alertscmd.NewCmdAlerts(f), storescmd.NewCmdStores(f))
	addGroup(root, "Set up", migratecmd.NewCmdMigrate(f), installcmd.NewCmdInstall(f), configcmd.NewCmdConfig(f),
		devdbcmd.NewCmdDevDB(f))
}

// mentions returns a pattern for commands of the stock binary that a text mentions.
func mentions(root *cobra.Command) *regexp.Regexp {
	return regexp.MustCompile(`\bprescient (` + strings.Join(seq.Map(root.Commands(), (*cobra.Command).Name), "|") + `)\b`)
}
