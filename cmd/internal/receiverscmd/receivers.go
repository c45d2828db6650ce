// Package receiverscmd has the commands that list receivers, and try them.
package receiverscmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/internal/seq"
)

// NewCmdReceivers returns the command receivers, with those below it.
func NewCmdReceivers(f *factory.Factory) *cobra.Command {
	return cli.Group("receivers", "List and try where messages to people go", newCmdList(f), newCmdTest(f))
}

// view is a receiver as JSON.
type view struct {
	Receiver  string `json:"receiver"`   // its name in the settings
	Address   string `json:"address"`    // without secrets
	PerMinute int    `json:"per_minute"` // how many messages it gets in a minute, at most
	Alerts    bool   `json:"alerts"`     // it is told of findings
}

func newCmdList(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:     "list",
		Short:   "List the receivers of the settings",
		Example: `  prescient receivers list`,
		Args:    cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			views := seq.Map(f.Config().Receivers, func(r config.Receiver) view {
				return view{r.Name, r.URL.String(), r.PerMinute, r.Name == f.Config().Alerts.Receiver}
			})
			return output.List(f.Printer, views, table.Row{"RECEIVER", "ADDRESS", "A MINUTE", "ALERTS"}, func(v view) table.Row {
				return table.Row{v.Receiver, v.Address, v.PerMinute, v.Alerts}
			})
		},
	})
}

type testOptions struct {
	name string
	to   string
}

func newCmdTest(f *factory.Factory) *cobra.Command {
	var o testOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "test RECEIVER",
		Short: "Send a message to a receiver of the settings, and print what the service answers",
		Long: `Send a message to a receiver of the settings, and print what the service answers. It needs no
database. It exits 1 if the service did not take the message.`,
		Example: `  prescient receivers test ops
  prescient receivers test mail --to ada@example.com`,
		Args: cli.Exactly("RECEIVER"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return test(c.Context(), f, o)
		},
	})
	c.Flags().StringVar(&o.to, "to", "", "send it to this `ADDRESS`, such as a mail address; default: the receiver's")
	return c
}

// testTime bounds a test.
const testTime = time.Minute

func test(ctx context.Context, f *factory.Factory, o testOptions) (err error) {
	to, err := find(f, o.name)
	if err != nil {
		return err
	}
	r, err := checks.OpenReceiver(f, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, testTime, fmt.Errorf("no answer within %s", testTime))
	defer cancel()
	id := "test-" + rand.Text()
	answer, err := r.Send(ctx, receiver.Message{ID: id, Message: message.Message{
		Text: "A test of prescient: messages for " + to.Name + " arrive here.", To: o.to, About: id,
	}})
	if err != nil {
		return fmt.Errorf("receiver %s (%s) did not take the message: %w", to.Name, to.URL, err)
	}
	tested := testedView{to.Name, to.URL.String(), answer}
	text := fmt.Sprintf("%s (%s) took the message.", to.Name, to.URL)
	if answer != "" {
		text += " It answered: " + answer
	}
	return f.Say(tested, strings.Map(plain.Printable, strings.Join(strings.Fields(text), " ")))
}

// testedView is a receiver that took a message, as JSON.
type testedView struct {
	Receiver string `json:"receiver"` // its name in the settings
	Address  string `json:"address"`  // without secrets
	Answer   string `json:"answer"`   // of the service; empty: it took the message without a word
}

// find returns a receiver of the settings.
func find(f *factory.Factory, name string) (config.Receiver, error) {
	list := f.Config().Receivers
	if i := slices.IndexFunc(list, func(r config.Receiver) bool { return r.Name == name }); i >= 0 {
		return list[i], nil
	}
	return config.Receiver{}, exit.Usagef("there is no receiver %s%s", name, checks.OtherReceivers(f, name))
}
