package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// evil has each kind of character that a terminal acts on: of C0, DEL, of C1, and of those that set a direction.
const evil = "x\x1b[31m\a\x7f\u009b31m\u202ey\u2066\u200f"

// sched is the id of a schedule, which may have nothing of it: its data may.
const sched = "s31m"

// acted finds a character that a terminal acts on.
func acted(text string) int {
	return strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	})
}

func TestNoCommandLetsUntrustedTextActOnATerminal(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1") // so that doctor does not ask what cron sees
	dir := t.TempDir()
	t.Setenv("PRESCIENT_SPOOL_DIR", dir)
	for name, content := range map[string]string{"check": "#!/bin/sh\n", "stores.yaml": "stores: [{name: a}, {name: b, schema: b}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	registry := jobs.NewRegistry()
	registry.Register("bad", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New(evil) }), jobs.Retry(0))
	registry.Register("ok"+evil, jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	url := pgtest.URL(t)
	fillWithEvil(t, url)
	seen := map[string]bool{} // outputs that had something of it
	for _, line := range [][]string{
		{"run"},
		{"status"},
		{"doctor"},
		{"jobs", "registered"},
		{"jobs", "list"},
		{"jobs", "list", "--entity", evil, "--key", evil},
		{"why", evil, evil},
		{"jobs", "history"},
		{"jobs", "history", "--entity", evil, "--key", evil},
		{"jobs", "stats"},
		{"slots", "list"},
		{"plan", "forecast"},
		{"plan", "advise"},
		{"schedules", "list"},
		{"schedules", "show", sched},
		{"schedules", "show", "no" + evil},
		{"schedules", "pause", sched},
		{"schedules", "resume", sched},
		{"schedules", "trigger", sched},
		{"schedules", "delete", sched},
		{"events", "tail"},
		{"events", "tail", "--follow=false"},
		{"events", "ack", "c" + evil, "0-0"},
		{"events", "consumers"},
		{"events", "forget", "c" + evil},
		{"jobs", "pause", "ok" + evil},
		{"jobs", "pause", "ok" + evil},
		{"status"},
		{"jobs", "resume", "ok" + evil},
		{"jobs", "resume", "ok" + evil},
		{"jobs", "pause", "no" + evil},
		{"jobs", "add", "ok" + evil, evil, "k" + evil, "--in", "1h"},
		{"jobs", "cancel", "ok" + evil, evil, "k" + evil},
		{"jobs", "cancel", "--entity", evil, "--yes"},
		{"jobs", "retry", "--all"},
		{"jobs", "add", "ok" + evil, "order", "1", "--in", evil},
		{"config", "show", "--log-level", evil},
		{evil},
		{"jobs", "list", "--" + evil},
		{"spool", "add", "--in", "1h", filepath.Join(dir, "check")},
		{"spool", "list"},
		{"stores", "list", "--config", filepath.Join(dir, "stores.yaml")},
		{"status", "--store", evil, "--config", filepath.Join(dir, "stores.yaml")},
		{"__complete", "jobs", "pause", ""},
		{"__complete", "schedules", "show", ""},
	} {
		for _, format := range []string{"table", "json"} {
			var out, log bytes.Buffer
			a := New(registry)
			a.Name, a.Out, a.Err = "shop", &out, &log
			args := append([]string{}, line...)
			if line[0] != "__complete" {
				args = append(args, "--database-url", url)
				t.Setenv("PRESCIENT_LOG_FORMAT", map[string]string{"table": "text", "json": "json"}[format])
			}
			if c, _, err := a.newLine().root.Find(line); err == nil && c.Flags().Lookup("output") != nil {
				args = append(args, "--output", format)
			}
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			a.Run(ctx, args)
			if ctx.Err() != nil {
				t.Fatalf("%q does not end", line)
			}
			cancel()
			for stream, text := range map[string]string{"stdout": out.String(), "stderr": log.String()} {
				if at := acted(text); at >= 0 {
					t.Errorf("%q (%s) writes to %s: %q", line, format, stream, text[max(0, at-40):min(len(text), at+40)])
				}
				if strings.Contains(text, "31m") {
					seen[fmt.Sprint(line[:min(2, len(line))], " ", format)] = true
				}
			}
			if format == "json" && out.Len() > 0 && line[0] != "events" && line[0] != "__complete" && !json.Valid(out.Bytes()) {
				t.Errorf("%q does not print JSON:\n%s", line, &out)
			}
		}
	}
	for _, want := range []string{"status", "doctor", "jobs registered", "jobs list", "why " + evil, "jobs history", "schedules list", "events tail", "jobs pause"} {
		for _, format := range []string{"table", "json"} {
			if key := "[" + want + "] " + format; !seen[key] {
				t.Errorf("%q shows nothing of the untrusted text, so it proves nothing", key)
			}
		}
	}
}

// fillWithEvil puts the text wherever an application, a schedule or an operator may put one.
func fillWithEvil(t *testing.T, url string) {
	t.Helper()
	db, err := sqlx.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`select prescient.enqueue('bad', $1::text, $1::text, check_at => now() - interval '1 hour', payload => jsonb_build_object('a', $2::jsonb))`,
		`select prescient.enqueue('ok' || $1::text, $1::text, 'waits', item_key => $1::text, check_at => now() + interval '2 hours', payload => $2::jsonb)`,
		`select prescient.enqueue('strange' || $1::text, $1::text, $1::text, check_at => now() + interval '2 hours', payload => $2::jsonb)`,
		`select prescient.enqueue('ok' || $1::text, $1::text, $1::text, check_at => now() + interval '2 hours', payload => $2::jsonb)`,
		`select prescient.cancel('ok' || $1::text, $1::text, $1::text) where $2::text <> ''`,
		`update prescient.future_job set error_count = 1, last_error = $1::text || left($2::text, 0)`,
	} {
		if _, err := db.ExecContext(t.Context(), statement, evil, string(text)); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	a := New(jobs.NewRegistry())
	a.Out, a.Err = io.Discard, &log
	if code := a.Run(t.Context(), []string{"schedules", "create", sched, "--crontab", "0 9 * * *", "--payload", string(text), "--database-url", url}); code != Done {
		t.Fatalf("exit code %d: %s", code, &log)
	}
}
