package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// report is all that a run has measured.
type report struct {
	Started  time.Time         `json:"started"`
	Revision string            `json:"revision,omitempty"` // of the source; -dirty: it was changed since
	Short    bool              `json:"short"`
	Rows     int               `json:"rows"`
	Rounds   int               `json:"rounds"`
	Versions map[string]string `json:"versions"`
	Settings map[string]string `json:"settings"`
	Figures  []figure          `json:"figures"`
	Notes    []string          `json:"notes,omitempty"`

	order []string // of Versions
}

// figure is a ratio of two medians' sides, or a value beside its limit.
type figure struct {
	Workload string    `json:"workload"`
	Case     string    `json:"case"`
	Subject  string    `json:"subject"`
	Value    float64   `json:"value"` // median
	Against  string    `json:"against,omitempty"`
	Base     float64   `json:"base,omitempty"` // median
	Unit     string    `json:"unit"`
	Ratio    float64   `json:"ratio,omitempty"` // median of Ratios
	Ratios   []float64 `json:"ratios,omitempty"`
	Target   string    `json:"target,omitempty"`
	Met      *bool     `json:"met,omitempty"` // null: there is no target, or the sizes are not those it is for
	Note     string    `json:"note,omitempty"`
}

const rowsPerSecond = "rows/s"

// target is what a figure is expected to reach.
type target struct {
	atMost bool
	limit  float64
	unit   string // of a value; empty: x, a ratio
	other  bool   // the sizes are not those that it is for
}

func atLeast(ratio float64) *target { return &target{limit: ratio} }
func atMost(limit float64, unit string) *target {
	return &target{atMost: true, limit: limit, unit: unit}
}

func (t *target) String() string {
	sign := ">="
	if t.atMost {
		sign = "<="
	}
	if t.unit == "" {
		return fmt.Sprintf("%s %g x", sign, t.limit)
	}
	return fmt.Sprintf("%s %g %s", sign, t.limit, t.unit)
}

func (t *target) met(value float64) bool {
	if t.atMost {
		return value <= t.limit
	}
	return value >= t.limit
}

func newReport(ctx context.Context, b *bench) (*report, error) {
	r := &report{
		Started: clock().UTC().Truncate(time.Second), Revision: revision(ctx), Short: b.short, Rows: b.rows, Rounds: b.rounds,
		Versions: map[string]string{}, Settings: map[string]string{},
	}
	r.version("cores", fmt.Sprint(runtime.NumCPU()))
	r.version("Go", strings.TrimPrefix(runtime.Version(), "go"))
	status, err := b.server.pg.Status(ctx)
	if err != nil {
		return nil, err
	}
	r.version("PostgreSQL", status.Version)
	for _, name := range []string{
		"fsync", "full_page_writes", "synchronous_commit", "shared_buffers", "max_wal_size", "wal_compression",
		"checkpoint_timeout", "autovacuum", "data_checksums",
	} {
		if r.Settings[name], err = b.server.setting(ctx, name); err != nil {
			return nil, err
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		names := map[string]string{
			"github.com/riverqueue/river": "River", "github.com/vgarvardt/gue/v5": "gue",
			"github.com/lib/pq": "lib/pq", "github.com/jackc/pgx/v5": "pgx",
		}
		for _, m := range info.Deps {
			if name, ok := names[m.Path]; ok {
				r.version(name, strings.TrimPrefix(m.Version, "v"))
			}
		}
	}
	return r, nil
}

// revision returns the commit of the source, or an empty text if this is no checkout of git.
func revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (r *report) version(name, version string) {
	if _, known := r.Versions[name]; !known {
		r.order = append(r.order, name)
	}
	r.Versions[name] = version
}

func (r *report) note(text string) { r.Notes = append(r.Notes, text) }

// judged tells whether the sizes are those that the targets are for.
func (r *report) judged() bool { return r.Rows >= 100_000 }

// compare adds the ratio of two series.
func (r *report) compare(f figure, value, base series, t *target) {
	f.Value, f.Base = value.median(), base.median()
	f.Ratios = value.over(base)
	f.Ratio = median(f.Ratios)
	f.Unit = rowsPerSecond
	r.add(f, f.Ratio, t)
}

// add adds a figure, of which value is what the target is for.
func (r *report) add(f figure, value float64, t *target) {
	if t != nil {
		f.Target = t.String()
		if r.judged() && !t.other {
			met := t.met(value)
			f.Met = &met
		}
	}
	r.Figures = append(r.Figures, f)
}

func (r *report) json(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// markdown writes the report for a person, a table for each workload.
func (r *report) markdown(w io.Writer) error {
	p := printer{w: w}
	kind := "all"
	if r.Short {
		kind = "the short set"
	}
	p.line("# Benchmark: %s, %s\n", kind, r.Started.Format(time.DateOnly))
	var versions []string
	for _, name := range r.order {
		versions = append(versions, name+" "+r.Versions[name])
	}
	p.line("%s.\n", strings.Join(versions, ", "))
	p.line("PostgreSQL settings: %s.\n", pairs(r.Settings))
	p.line("%d due rows a part, unless the case says otherwise; a ratio is the median of %d rounds by turns, "+
		"and each part begins after a checkpoint.", r.Rows, r.Rounds)
	last := ""
	for _, f := range r.Figures {
		if f.Workload != last {
			last = f.Workload
			p.line("\n## %s\n", last)
			p.line("| case | measured | value | against | value | ratio | target | met | note |")
			p.line("| --- | --- | ---: | --- | ---: | ---: | --- | --- | --- |")
		}
		p.line("| %s | %s | %s | %s | %s | %s | %s | %s | %s |", f.Case, f.Subject, amount(f.Value, f.Unit),
			f.Against, amount(f.Base, f.Unit), ratio(f.Ratio), f.Target, f.verdict(), f.Note)
	}
	if len(r.Notes) > 0 {
		p.line("\n## Notes\n")
	}
	for _, note := range r.Notes {
		p.line("- %s", strings.ReplaceAll(note, "\n", " "))
	}
	return p.err
}

func (f figure) verdict() string {
	switch {
	case f.Target == "":
		return ""
	case f.Met == nil:
		return "not judged"
	case *f.Met:
		return "yes"
	default:
		return "**no**"
	}
}

func ratio(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 10:
		return fmt.Sprintf("%.1f x", v)
	default:
		return fmt.Sprintf("%.2f x", v)
	}
}

func amount(v float64, unit string) string {
	switch {
	case v == 0 || math.IsNaN(v):
		return ""
	case v >= 10_000 && unit == rowsPerSecond:
		return fmt.Sprintf("%.0fk %s", v/1000, unit)
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	default:
		return fmt.Sprintf("%.3g %s", v, unit)
	}
}

// pairs is a map as text, in the order of its keys.
func pairs(m map[string]string) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(m), "map["), "]")
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	_, err := fmt.Fprintf(p.w, format+"\n", args...)
	p.err = errors.Join(p.err, err)
}
