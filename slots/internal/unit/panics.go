package unit

import (
	"context"
	"log/slog"
	"sync"
)

// Panics logs the panics of functions in a run. It is safe for concurrent use.
type Panics struct {
	log  *slog.Logger
	told sync.Map // functions whose panic was logged
}

// NewPanics returns Panics that log to a logger.
func NewPanics(log *slog.Logger) *Panics { return &Panics{log: log} }

// Check logs a panic of a check of rows.
func (p *Panics) Check(ctx context.Context, job, rows string, value any, stack []byte) {
	p.log.Log(ctx, p.level("check of "+job), "check panicked", "check", rows, "panic", value, "stack", string(stack))
}

// LimitBy logs a panic of the key function of a job.
func (p *Panics) LimitBy(ctx context.Context, job, row string, value any) {
	p.log.Log(ctx, p.level("LimitBy of "+job), "LimitBy panicked: the check counts to the empty key", "check", row,
		"panic", value)
}

// Watcher logs a panic of a function that observes the run.
func (p *Panics) Watcher(ctx context.Context, function string, value any, stack []byte) {
	p.log.Log(ctx, p.level(function), "a function that observes the run panicked", "function", function, "panic", value,
		"stack", string(stack))
}

// level returns the level at which to log a panic of a function: error for the first one of a run, and
// debug for the next ones. Thousands of rows may meet the same bug, cron mails what a run logs, and each
// row keeps its error.
func (p *Panics) level(function string) slog.Level {
	if _, told := p.told.LoadOrStore(function, true); told {
		return slog.LevelDebug
	}
	return slog.LevelError
}
