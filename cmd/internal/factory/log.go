package factory

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
)

// logs is stderr: it opens the logs of a command line.
type logs struct {
	err    io.Writer
	tail   *tail
	global bool // the log is slog's default, too
	quiet  bool // success is not logged
}

// Log returns the log, on stderr.
func (f *Factory) Log() *slog.Logger { return f.log }

// Err returns stderr, for progress.
func (l *logs) Err() io.Writer { return l.err }

// ErrIsTerminal reports whether stderr is a terminal.
func (l *logs) ErrIsTerminal() bool {
	file, ok := l.err.(*os.File)
	return ok && output.IsTerminal(file)
}

// Tail returns the end of the log.
func (l *logs) Tail() string { return l.tail.String() }

// Quiet reports whether the log leaves out success, because cron would mail it.
func (l *logs) Quiet() bool { return l.quiet }

// open returns the log that the settings describe.
func (l *logs) open(cfg config.Log, store string) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // config has checked it
	if l.quiet {
		level = slog.LevelWarn
	}
	log := l.logger(cfg.Format, level, store)
	if l.global {
		slog.SetDefault(log)
	}
	return log
}

// logger returns a log to stderr from a level on. It keeps the end of the log for a failed ping.
func (l *logs) logger(format string, level slog.Level, store string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var handler slog.Handler = slog.NewTextHandler(l.err, opts)
	if format == "json" {
		handler = slog.NewJSONHandler(plain.Writer(l.err), opts)
	}
	kept := slog.NewTextHandler(l.tail, &slog.HandlerOptions{Level: min(level, slog.LevelInfo), ReplaceAttr: readable})
	log := slog.New(slog.NewMultiHandler(handler, kept))
	if store != "" {
		log = log.With("store", store)
	}
	return log
}

// readable logs durations as text, instants in UTC as every text says them, and errors without the name of the
// driver. The instant of the line itself keeps its fraction of a second.
func readable(groups []string, attr slog.Attr) slog.Attr {
	switch attr.Value.Kind() {
	case slog.KindTime:
		at := attr.Value.Time().UTC()
		if attr.Value = slog.TimeValue(at); len(groups) > 0 || attr.Key != slog.TimeKey {
			attr.Value = slog.StringValue(spoken.Instant(at))
		}
	case slog.KindAny:
		if err, is := attr.Value.Any().(error); is {
			attr.Value = slog.StringValue(spoken.Error(err.Error()))
		}
	case slog.KindString:
		if attr.Key == "error" { // with advice
			attr.Value = slog.StringValue(spoken.Error(attr.Value.String()))
		}
	case slog.KindDuration:
		attr.Value = slog.StringValue(attr.Value.Duration().String())
	}
	return attr
}

// tailSize bounds the end of the log that is kept.
const tailSize = 10 << 10

// tail keeps the end of all writes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write appends p.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String returns what is kept, as valid UTF-8.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "")
}
