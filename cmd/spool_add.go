package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/spool"
)

type spoolAddOptions struct {
	when      when
	name      string
	maxChecks count
	retry     int
	misfire   jobs.Misfire
	timeout   time.Duration
	horizon   time.Duration
	deadline  time.Duration
	command   bool // the arguments are a command, no FILE
}

func newSpoolAdd(a *App, width *time.Duration) *cobra.Command {
	d := spool.DefaultGuards()
	o := spoolAddOptions{misfire: d.Misfire}
	c := a.withOutput(&cobra.Command{
		Use:   "add FILE | add -- COMMAND [ARG...]",
		Short: "Put an executable into a slot",
		Long: `Put a copy of an executable into the first slot at or after an instant, or a script that runs a command in the
present directory. It is there whole, or not at all. A slot that has begun is never a target: an instant that has
passed stands for the next one.`,
		Example: `  prescient spool add --in 48h ./look-at-order-42
  prescient spool add --at 2026-03-01T13:05:00Z --name order-42 -- \
    look-at-order 42
  prescient spool add --in 1h --timeout 10m --max-checks 24 --name ping -- \
    sh -c 'ping -c1 db1 || exit 75'`,
		Args: func(c *cobra.Command, args []string) error {
			o.command = c.ArgsLenAtDash() == 0
			if o.command && len(args) > 0 || c.ArgsLenAtDash() < 0 && len(args) == 1 {
				return nil
			}
			return errors.New("want one FILE, or -- and a COMMAND with its arguments")
		},
		RunE: func(c *cobra.Command, args []string) error { return addToSpool(c.Context(), a, width, &o, args) },
	})
	fs := c.Flags()
	o.when.flags(c)
	c.MarkFlagsOneRequired("at", "in")
	fs.StringVar(&o.name, "name", "", "`NAME` in the slot; default: the last element of FILE or COMMAND")
	countVar(fs, &o.maxChecks, "max-checks", count(d.MaxChecks), "number of checks at the most")
	fs.IntVar(&o.retry, "retry", d.Retry, "try again after `N` errors in a row")
	fs.Var(choice(&o.misfire, jobs.MisfireRun, jobs.MisfireDefer, jobs.MisfireSkip), "on-misfire",
		"what catch-up does with it: run, defer or skip")
	duration.Var(fs, &o.timeout, "timeout", time.Duration(d.Timeout), "how long a check may take before it is ended, as an error")
	duration.Var(fs, &o.horizon, "horizon", time.Duration(d.Horizon), "how far ahead a check may be asked for")
	duration.Var(fs, &o.deadline, "deadline", 0, "how late a check may start before it is dropped; 0: as late as it gets")
	return c
}

func addToSpool(ctx context.Context, a *App, width *time.Duration, o *spoolAddOptions, args []string) error {
	s, err := a.openSpool(*width)
	if err != nil {
		return err
	}
	e := spool.Executable{Name: o.name, Guards: spool.Guards{
		MaxChecks: int(o.maxChecks), Timeout: duration.Text(o.timeout), Horizon: duration.Text(o.horizon),
		Retry: o.retry, Deadline: duration.Text(o.deadline), Misfire: o.misfire,
	}}
	if e.Name == "" {
		e.Name = filepath.Base(args[0])
	}
	content, err := o.content(args)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	e.Content = content
	slot, err := s.Add(ctx, o.when.from(s.Now()), e)
	if err != nil {
		return err
	}
	view := struct {
		Slot time.Time `json:"slot"`
		Name string    `json:"name"`
	}{slot, e.Name}
	return a.print(view, func() error {
		return a.table(table.Row{"SLOT", "NAME"}, table.Row{view.Slot, view.Name})
	})
}

// content is the executable: a file, or a script that runs a command.
func (o *spoolAddOptions) content(args []string) (io.ReadCloser, error) {
	if !o.command {
		file, err := os.Open(args[0])
		if err != nil {
			return nil, fmt.Errorf("read the executable: %w", err)
		}
		return file, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the present directory: %w", err)
	}
	return io.NopCloser(strings.NewReader(script(dir, args))), nil
}

// script runs a command in a directory.
func script(dir string, command []string) string {
	var words strings.Builder
	for _, word := range command {
		words.WriteString(" " + quote(word))
	}
	return fmt.Sprintf("#!/bin/sh\ncd %s || exit\nexec%s\n", quote(dir), words.String())
}

// quote makes one word of a text for the shell, whatever it contains.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
