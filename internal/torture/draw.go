package main

import (
	"bytes"
	"fmt"
	"strings"
)

// line is a line of a panel: the sum of some columns, in the unit of the panel.
type line struct {
	class, name string
	columns     []string
}

// panel is a part of the picture of a soak.
type panel struct {
	title string
	unit  float64 // of a column that is 1 in the picture
	lines []line
}

var panels = []panel{
	{"Memory of the daemons, MB", 1024, []line{
		{"a", "daemon a", []string{"daemon a memory"}}, {"b", "daemon b", []string{"daemon b memory"}},
	}},
	{"Goroutines and connections", 1, []line{
		{"a", "goroutines of both daemons", []string{"daemon a goroutines", "daemon b goroutines"}},
		{"b", "connections of the server", []string{"server connections"}},
	}},
	{"Tables whose rows go, with their indexes, MB", 1024, []line{
		{"a", "future_job", []string{"future_job", "future_job indexes"}},
		{"b", "claims, progress and limits", []string{"other work tables", "other work indexes"}},
	}},
	{"Lateness of checks, s", 1000, []line{
		{"a", "99th percentile", []string{"lateness p99"}}, {"b", "median", []string{"lateness median"}},
	}},
}

// value is that of a line in a sample.
func (l line) value(s sample) (sum float64) {
	for _, c := range l.columns {
		sum += s[c]
	}
	return sum
}

// The picture, in units of its own.
const (
	panelWide, panelHigh  = 340, 120
	panelLeft, panelTop   = 48, 52
	pictureWide, stepHigh = 2 * (panelLeft + panelWide + 32), panelTop + panelHigh + 36
)

const pictureStyle = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .small { font-size: 11px; fill: #59636e; }
  path { fill: none; stroke-width: 1.5; }
  .axis { stroke: #8c959f; stroke-width: 1; }
  .a { stroke: #bc4c00; }
  .b { stroke: #0969da; }
  text.a, text.b { font-size: 11px; stroke: none; }
  text.a { fill: #bc4c00; }
  text.b { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .a { stroke: #f0883e; }
    .b { stroke: #4493f8; }
    text.a { fill: #f0883e; }
    text.b { fill: #4493f8; }
  }`

// draw draws the samples of a soak, in four panels from zero up.
func draw(all []sample) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc">`+"\n",
		pictureWide, 2*stepHigh)
	minutes := all[len(all)-1]["seconds"] / 60
	fmt.Fprintf(&b, "<title id=\"title\">A soak of %.0f minutes</title>\n", minutes)
	fmt.Fprintf(&b, "<desc id=\"desc\">Memory, goroutines, connections, tables and lateness over %.0f minutes.</desc>\n", minutes)
	fmt.Fprintf(&b, "<style>%s\n</style>\n", pictureStyle)
	for i, p := range panels {
		p.draw(&b, all, panelLeft+i%2*(pictureWide/2), i/2*stepHigh)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (p panel) draw(b *bytes.Buffer, all []sample, left, top int) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", left, top+20, p.title)
	most, last := 0.0, all[len(all)-1]["seconds"]
	for _, s := range all {
		for _, l := range p.lines {
			most = max(most, l.value(s)/p.unit)
		}
	}
	bottom := top + panelTop + panelHigh
	for i, l := range p.lines {
		fmt.Fprintf(b, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n", l.class, left+i*panelWide/2, top+38, l.name)
		fmt.Fprintf(b, "<path class=\"%s\" d=\"", l.class)
		for j, s := range all {
			fmt.Fprintf(b, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0],
				float64(left)+s["seconds"]*panelWide/last, float64(bottom)-l.value(s)/p.unit*panelHigh/max(most, 0.001))
		}
		b.WriteString("\"/>\n")
	}
	fmt.Fprintf(b, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", left, top+panelTop, bottom, left+panelWide)
	fmt.Fprintf(b, "<text class=\"small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%.3g</text>\n", left-6, top+panelTop+8, most)
	fmt.Fprintf(b, "<text class=\"small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n", left-6, bottom)
	fmt.Fprintf(b, "<text class=\"small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f minutes</text>\n", left+panelWide, bottom+16, last/60)
}

// soakTable is a table of medians, of those that checkFlat compares and some more.
func soakTable(all []sample) string {
	var b strings.Builder
	const kept = "kept for each row"
	for _, s := range all {
		s[kept] = s["kept tables and indexes"] / max(1, s["history rows"])
	}
	last := all[len(all)-1]
	fmt.Fprintf(&b, "In %.0f minutes, %s rows ended. History, the ledger and the outbox keep what they have, until\n"+
		"their retention removes it:\n\n", last["seconds"]/60, thousands(int(last["history rows"])))
	b.WriteString("| | second quarter | last quarter |\n| --- | ---: | ---: |\n")
	quarter := len(all) / 4
	for _, row := range []struct {
		name, column string
		unit         float64
		format       string
	}{
		{"memory of daemon a, MB", "daemon a memory", 1024, "%.1f"},
		{"memory of daemon b, MB", "daemon b memory", 1024, "%.1f"},
		{"goroutines of daemon a", "daemon a goroutines", 1, "%.0f"},
		{"goroutines of daemon b", "daemon b goroutines", 1, "%.0f"},
		{"connections of the server", "server connections", 1, "%.0f"},
		{"`future_job`, kB", "future_job", 1, "%.0f"},
		{"its indexes, kB", "future_job indexes", 1, "%.0f"},
		{"its dead tuples", "future_job dead", 1, "%.0f"},
		{"claims, progress and limits, kB", "other work tables", 1, "%.0f"},
		{"their indexes, kB", "other work indexes", 1, "%.0f"},
		{"history, ledger and outbox for each row, kB", kept, 1, "%.2f"},
		{"lateness, median, s", "lateness median", 1000, "%.2f"},
		{"lateness, 99th percentile, s", "lateness p99", 1000, "%.2f"},
	} {
		before, after := median(all[quarter:2*quarter], row.column), median(all[3*quarter:], row.column)
		fmt.Fprintf(&b, "| %s | "+row.format+" | "+row.format+" |\n", row.name, before/row.unit, after/row.unit)
	}
	return b.String()
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
