package cmd

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

type schedulesApplyOptions struct {
	file   string
	dryRun bool
}

func newSchedulesApply(a *App) *cobra.Command {
	var o schedulesApplyOptions
	c := a.withOutput(&cobra.Command{
		Use:   "apply",
		Short: "Make the schedules of the database equal to a file",
		Long: `Make the schedules of the database equal to a YAML or JSON file, in one transaction: create those that are new, update
those that differ, delete those that the file does not have. The same ones are not touched. What a schedule leaves
out has its default, but an anchor stays as it is. An empty list deletes every schedule; a file without the list is
an error.

  schedules:
    - id: report-42
      crontab: "0 9 * * mon-fri"
      timezone: Europe/Berlin
      payload: {report: 42}
      deadline: 2h
      spread: 10m
      misfire: latest            # all, latest or skip
      anchor: 2026-01-01T00:00:00Z
      paused: false`,
		Example: `  prescient schedules apply -f schedules.yaml --dry-run
  prescient schedules apply -f schedules.yaml
  generate | prescient schedules apply -f -`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return applySchedules(c.Context(), a, o) },
	})
	c.Flags().StringVarP(&o.file, "file", "f", "", "the `FILE`; - reads stdin")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be done")
	_ = c.MarkFlagRequired("file")
	return c
}

// appliedView is what apply did, as JSON.
type appliedView struct {
	DryRun    bool          `json:"dry_run"`
	Created   int           `json:"created"`
	Updated   int           `json:"updated"`
	Deleted   int           `json:"deleted"`
	Unchanged int           `json:"unchanged"`
	Changes   []appliedItem `json:"changes"`
}

type appliedItem struct {
	ID     string          `json:"id"`
	Action schedule.Action `json:"action"`
}

func applySchedules(ctx context.Context, a *App, o schedulesApplyOptions) error {
	text, err := readFile(a, o.file)
	if err != nil {
		return err
	}
	specs, err := parseSchedules(text)
	if err != nil {
		return usagef("%s: %w", o.file, err)
	}
	return a.withSchedules(ctx, func(db *sqlx.DB, s *schedule.Store) error {
		applied, err := s.Apply(ctx, db, specs, o.dryRun)
		if err != nil {
			return err
		}
		return printApplied(a, newAppliedView(applied, o.dryRun))
	}, pgsql.Patient())
}

func readFile(a *App, name string) (text []byte, err error) {
	if name == "-" {
		text, err = io.ReadAll(a.In)
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the schedules: %w", err)
	}
	return text, nil
}

func newAppliedView(applied []schedule.Applied, dryRun bool) appliedView {
	view := appliedView{DryRun: dryRun, Changes: []appliedItem{}}
	count := map[schedule.Action]*int{
		schedule.Create: &view.Created, schedule.Update: &view.Updated, schedule.Delete: &view.Deleted, schedule.Unchanged: &view.Unchanged,
	}
	for _, item := range applied {
		*count[item.Action]++
		if item.Action != schedule.Unchanged {
			view.Changes = append(view.Changes, appliedItem(item))
		}
	}
	return view
}

func printApplied(a *App, view appliedView) error {
	return a.print(view, func() error {
		err := printTable(a, view.Changes, table.Row{"ID", "ACTION"}, func(v appliedItem) table.Row { return table.Row{v.ID, string(v.Action)} })
		if err != nil {
			return err
		}
		note := ""
		if view.DryRun {
			note = " (dry run: nothing was written)"
		}
		return a.lines("", fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged%s", view.Created, view.Updated, view.Deleted, view.Unchanged, note))
	})
}
