package schedule_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// What the examples below are given by their application.
var (
	ctx   = context.Background()
	db    *sqlx.DB
	tx    *sql.Tx
	store *schedule.Store
)

// In the transaction that stores the report, let it be sent every weekday at 9 in Berlin.
func ExampleStore_Create() {
	created, err := store.Create(ctx, tx, schedule.Spec{
		ID: "report-42", Crontab: "0 9 * * mon-fri", Timezone: "Europe/Berlin", Payload: json.RawMessage(`{"report": 42}`),
		Deadline: 2 * time.Hour, Misfire: schedule.Latest,
	})
	if errors.Is(err, schedule.ErrExists) {
		slog.Info("it was there already")
		return
	}
	slog.Info("the first one is due", "at", created.Next, "slot", created.Slot, "error", err)
}

// Change what was read, and overwrite no change that another client has made meanwhile.
func ExampleStore_Update() {
	report, err := store.Get(ctx, db, "report-42")
	if err != nil {
		slog.Error("read the schedule", "error", err)
		return
	}
	report.Crontab = "0 10 * * mon-fri"
	_, err = store.Update(ctx, db, report.Spec, report.Version)
	if errors.Is(err, schedule.ErrVersion) {
		slog.Warn("another client has changed it: read it again", "error", err)
	}
}

// Publish the schedules that are due, beside the other jobs of a binary, to the outbox in the same
// database.
func ExampleRegister() {
	registry := jobs.NewRegistry()
	schedule.Register(registry, &schedule.PublishConfig{Publisher: outbox.New(db, ""), Source: "https://example.com/reports"})
}

// A preview needs no database.
func ExamplePreview() {
	spec := schedule.Spec{Crontab: "30 2 * * *", Timezone: "Europe/Berlin"}
	from := time.Date(2026, time.March, 28, 0, 0, 0, 0, time.UTC)
	instants, err := schedule.Preview(spec, grid.Default, from, from.AddDate(0, 0, 3))
	if err != nil {
		slog.Error("bad crontab", "error", err)
		return
	}
	for at, slot := range instants {
		slog.Info("due", "at", at, "slot", slot)
	}
}

// The forms of instants that are none of five fields: in every hour, day and week since the anchor,
// and once.
func ExamplePreview_every() {
	anchor := time.Date(2022, time.March, 12, 6, 0, 0, 0, time.UTC)
	for _, crontab := range []string{"@every 1h", "@every 1d", "@every 1w", "@at 1647067401"} {
		spec := schedule.Spec{ID: "schedule1", Crontab: crontab, Anchor: anchor, Payload: json.RawMessage(`"{\"user\": 1234, ...}"`)}
		instants, err := schedule.Preview(spec, grid.Default, anchor.Add(time.Second), anchor.AddDate(0, 0, 8))
		if err != nil {
			panic(err)
		}
		for at, slot := range instants {
			fmt.Println(crontab, at.Format(time.RFC3339), slot.Format("15:04"))
			break // the first one
		}
	}
	// Output:
	// @every 1h 2022-03-12T07:00:00Z 07:00
	// @every 1d 2022-03-13T06:00:00Z 06:00
	// @every 1w 2022-03-19T06:00:00Z 06:00
	// @at 1647067401 2022-03-12T06:43:21Z 06:45
}
