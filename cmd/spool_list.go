package cmd

import (
	"cmp"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/slots/spool"
)

type spoolListOptions struct {
	history bool
	limit   count
	check   bool
}

func newSpoolList(a *App, width *time.Duration) *cobra.Command {
	var o spoolListOptions
	c := a.withOutput(&cobra.Command{
		Use:   "list",
		Short: "List what waits, runs, was missed or is refused, or history",
		Long: `List what is in the slots, the oldest first:

  waiting  its slot has not begun
  due      its slot is the current one
  running  its check has not ended, even if the run that started it died
  missed   its slot is over: it is for catch-up
  refused  it is never run as it is; the last column says why

With --history, list what ended instead, the newest slot first. With --check the exit code is 3 when something was
missed or is refused.`,
		Example: `  prescient spool list --dir /var/spool/checks --check
  prescient spool list --dir /var/spool/checks --history --output json |
    jq '.[].outcome'`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error { return listSpool(a, width, &o) },
	})
	fs := c.Flags()
	fs.BoolVar(&o.history, "history", false, "list what ended")
	countVar(fs, &o.limit, "limit", 50, "number of entries of history at the most")
	fs.BoolVar(&o.check, "check", false, "exit with 3 when something was missed or is refused")
	c.MarkFlagsMutuallyExclusive("history", "check")
	return c
}

func listSpool(a *App, width *time.Duration, o *spoolListOptions) error {
	s, err := a.openSpool(*width)
	if err != nil {
		return err
	}
	if o.history {
		return printSpoolHistory(a, s, int(o.limit))
	}
	list, err := s.List()
	if err != nil {
		return err
	}
	header := table.Row{"SLOT", "STATE", "NAME", optional("CHECKS"), optional("ERRORS"), "LAST ERROR OR PROBLEM"}
	err = printList(a, list, header, func(f spool.File) table.Row {
		return table.Row{f.Slot, string(f.State), f.Name, f.CheckCount, f.ErrorCount, cmp.Or(f.Problem, f.LastError)}
	})
	if err != nil || !o.check {
		return err
	}
	for _, f := range list {
		if f.State == spool.StateMissed || f.State == spool.StateRefused {
			return &ExitError{Code: Found}
		}
	}
	return nil
}

func printSpoolHistory(a *App, s *spool.Spool, limit int) error {
	list, err := s.History(limit)
	if err != nil {
		return err
	}
	header := table.Row{"SLOT", "OUTCOME", "NAME", optional("FINISHED AT"), optional("CHECKS"), optional("ERRORS"), optional("TOOK"), "LAST ERROR"}
	return printList(a, list, header, func(e spool.Ended) table.Row {
		return table.Row{e.Slot, string(e.Outcome), e.Name, e.FinishedAt, e.CheckCount, e.ErrorCount, duration.Text(e.Duration), e.LastError}
	})
}
