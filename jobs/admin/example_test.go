package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// What the examples below are given by their application.
var (
	ctx      = context.Background()
	db       *sqlx.DB
	client   *jobs.Client
	operator *admin.Client
	placedAt time.Time
)

func ExampleNew() {
	operator := admin.New(client)
	paused, err := operator.Paused(ctx, db)
	if err != nil {
		slog.Error("read which jobs are paused", "error", err)
	}
	for _, job := range paused {
		slog.Info("paused", "job", job.JobExec, "since", job.PausedAt, "by", job.PausedBy)
	}
}

// While the mail server is replaced, its rows wait where they are.
func ExampleClient_Pause() {
	changed, err := operator.Pause(ctx, db, "mail.reminder")
	slog.Info("the job is paused", "was running", changed, "error", err)
}

func ExampleClient_Resume() {
	changed, err := operator.Resume(ctx, db, "mail.reminder")
	slog.Info("the job runs again", "was paused", changed, "error", err)
}

// What has happened to the checks of order 42, and what keeps one from being run.
func ExampleClient_Timeline() {
	entries, err := operator.Timeline(ctx, db, jobs.Key{EntityName: "orders", EntityKey: "42"})
	if err != nil {
		slog.Error("read the timeline", "error", err)
	}
	for _, entry := range entries {
		slog.Info(entry.What, "job", entry.JobExec, "at", entry.At, "slot", entry.Slot, "hindrance", entry.Hindrance)
	}
}

// The failed checks of last week's outage, the latest first.
func ExampleClient_History() {
	failed := admin.HistoryFilter{Outcome: jobs.OutcomeFailed, From: placedAt, Limit: 20}
	for row, err := range operator.History(ctx, db, failed) {
		if err != nil {
			slog.Error("read history", "error", err)
			return
		}
		slog.Info("failed", "check", row.Key().String(), "at", row.FinishedAt, "error", row.LastError)
	}
}

// History is kept for a year.
func ExampleClient_Prune() {
	pruned, err := operator.Prune(ctx, db, time.Now().AddDate(-1, 0, 0))
	if err != nil {
		slog.Error("prune history", "error", err)
	}
	for _, part := range pruned {
		slog.Info("dropped", "partition", part.Partition, "rows", part.Rows)
	}
}

func ExampleClient_Stats() {
	stats, err := operator.Stats(ctx, db, placedAt, placedAt.Add(24*time.Hour))
	if err != nil {
		slog.Error("read statistics", "error", err)
	}
	for _, s := range stats {
		slog.Info("ended", "job", s.JobExec, "outcome", s.Outcome, "count", s.Count, "median lateness", s.LatenessP50)
	}
}

func ExampleClient_List() {
	for job, err := range operator.List(ctx, db, admin.Filter{JobExec: "order.unshipped"}) {
		if err != nil {
			slog.Error("read what waits", "error", err)
			return
		}
		slog.Info("waiting", "check", job.Key().String(), "slot", job.NextCheckAt)
	}
}

// A page of a list, and the next one, as a server shows them.
func ExampleClient_ListPage() {
	filter := admin.Filter{JobExec: "order.unshipped", Limit: 20}
	first, next, err := operator.ListPage(ctx, db, filter)
	if err == nil && !next.IsZero() {
		filter.After = next
		var second []jobs.FutureJob
		second, next, err = operator.ListPage(ctx, db, filter)
		slog.Info("read", "checks", len(first)+len(second), "more follow", !next.IsZero())
	}
	if err != nil {
		slog.Error("read what waits", "error", err)
	}
}

// What became of the checks of order 42, the latest first, a page at a time.
func ExampleClient_HistoryPage() {
	ended, next, err := operator.HistoryPage(ctx, db, admin.HistoryFilter{EntityName: "orders", EntityKey: "42"})
	if err != nil {
		slog.Error("read the history", "error", err)
	}
	for _, check := range ended {
		slog.Info("ended", "check", check.Key().String(), "outcome", check.Outcome, "at", check.FinishedAt)
	}
	if !next.IsZero() {
		slog.Info("more have ended", "after", next.String())
	}
}

// A position as text, such as in an address.
func ExampleParsePosition() {
	after, err := admin.ParsePosition("1772457300000000_42_7")
	slog.Info("the page begins", "behind slot", after.At(), "error", err)
}

// The mail server was down for a while; what failed since then is tried again in the next slot.
func ExampleClient_Retry() {
	retried, waiting, err := operator.Retry(ctx, db, admin.RetryFilter{JobExec: "order.unshipped", Since: placedAt}, time.Time{})
	slog.Info("failed checks were put back", "retried", retried, "waiting already", waiting, "error", err)
}

// A merchant has closed: none of its orders needs a check any more.
func ExampleClient_CancelAll() {
	closed := admin.CancelFilter{JobExec: "order.unshipped", GroupKey: "merchant-7"}
	done, err := operator.CancelAll(ctx, db, closed, admin.CancelOptions{Actor: "alice"})
	slog.Info("the checks of a merchant were cancelled", "cancelled", done.Cancelled, "left", done.Left, "error", err)
}

// What the command why prints about order 42.
func ExampleClient_Why() {
	why, err := operator.Why(ctx, "orders", "42")
	if err != nil {
		slog.Error("read what happened to the order", "error", err)
	}
	fmt.Print(why)
}
