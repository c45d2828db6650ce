package board

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
)

// Config of a Board. DB, Runner and Publishing must be set.
type Config struct {
	DB *sqlx.DB
	// Schema holds the tables. Default "prescient".
	Schema string
	// Runner is what catch-up runs with; its Registry has the jobs of the binary.
	Runner slots.Config
	// Publishing is where trigger and backfill publish.
	Publishing *schedule.Publishing
	// Self is how to call the binary, in what findings advise.
	Self string
	// Forecast tells what slots ahead are expected to be like, from one up to but not including another. Default: nobody knows.
	Forecast func(ctx context.Context, db jobs.DB, from, to time.Time) (map[time.Time]Forecast, error)
	// Logger is told of every action. Default: slog.Default().
	Logger *slog.Logger
	// Now is what slots are compared with. Default: the database's clock.
	Now func() time.Time
}

// Board reads and acts. It is safe for concurrent use.
type Board struct {
	cfg Config
}

// ErrBusy is returned where a read would cost more than all reads together may; in a moment it may be had.
var ErrBusy = errors.New("more is asked for than the database is to be asked: try again in a moment")

// ErrNotFound is returned for what there is not.
var ErrNotFound = errors.New("there is no such thing")
