package pages

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// shownTrouble and shownJobs bound the slots in trouble and the jobs of the first page. tooOld is
// the age from which on the page shows its age.
const (
	shownTrouble = 12
	shownJobs    = 100
	tooOld       = 30 * time.Second
)

// overviewPage answers "is it all right?".
type overviewPage struct {
	board.Overview
	Verdict     verdict
	Findings    []finding
	Axis        axis
	Said        string   // which slots the chart has
	Choices     []choice // of ranges
	Figures     []figure
	Trouble     []view.Trouble
	MoreTrouble int
	Listed      jobTable
	MoreJobs    int
	Failed      error // why the overview cannot be read
}

// verdict is the state in a word, for the top of the page and the foot of the other pages.
type verdict struct {
	Mark   string // ok, warn or bad
	Text   string
	Detail string
	Count  int // problems, for the title of the page
}

// finding is a problem, with the page that solves it or tells more.
type finding struct {
	health.Finding
	Do *way
}

// Silence returns the address of the form that silences the finding.
func (f finding) Silence() string { return link("/do/silence", "finding", f.Name()) }

// Ack returns the address of the form that acknowledges the rows of the finding. Empty: it has none.
func (f finding) Ack() string {
	if f.Condition != "gave-up" {
		return ""
	}
	return link("/do/ack", "job", f.Job, "since", "24h")
}

// way is a link to an action or a page.
type way struct{ Path, Text string }

// ways are the links of findings, by condition.
var ways = map[string]way{
	"missed":     {"/do/catch-up", "Catch up…"},
	"stranded":   {"/do/catch-up", "Catch up…"},
	"overdue":    {"/ledger", "Show the ledger"},
	"gave-up":    {"/do/retry", "Retry them…"},
	"failing":    {"/waiting", "Show the rows"},
	"publishing": {"/schedules", "Show the schedules"},
	"unserved":   {"/jobs", "Show the jobs"},
	"slow":       {"/ledger", "Show the ledger"},
	"sla":        {"/jobs", "Show the jobs"},
}

// leads returns the link of a finding, or nil if no page solves it or tells more. Catch-up leaves
// rows of jobs that the server does not know.
func leads(f health.Finding) *way {
	to, ok := ways[f.Condition]
	switch {
	case !ok:
		return nil
	case f.Condition == "stranded" && strings.Contains(f.Remedy, " run --slot "): // its runners take it over themselves
		to = ways["overdue"]
	case f.Condition == "stranded" && !strings.HasSuffix(f.Remedy, " catch-up"):
		to = ways["unserved"]
	case f.Condition == "gave-up":
		to.Path = link(to.Path, "job", f.Job, "since", "24h")
	case f.Condition == "failing":
		to.Path = link("/waiting", "job", f.Job)
		if strings.Contains(f.Remedy, " jobs history ") {
			to.Path = link("/ended", "job", f.Job, "outcome", jobs.OutcomeFailed)
		}
	case f.Condition == "sla":
		to = way{link("/job", "name", f.Job), "Show the job"}
	}
	return &to
}

// overviews shows the first page of a store.
type overviews struct{ *site }

func (p overviews) show(w http.ResponseWriter, r *http.Request) {
	of, err := periodOf(r)
	if err == nil && of.name == "" {
		err = badAddress("The first page shows the slots around now: from and to belong to " + p.link("/ledger") + ".")
	}
	if err != nil {
		p.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	v := p.read(r.Context(), of.name, acted(r))
	status := http.StatusOK
	if v.Failed != nil {
		status = http.StatusServiceUnavailable
	}
	p.site.show(w, r, status, "overview", page{Section: "Now", Content: v, Live: link(livePath, "range", of.name)})
}

// read reads the first page with the chart of a range of periods. If the database does not answer, the page says so.
func (p overviews) read(ctx context.Context, of string, acted int64) overviewPage {
	o, err := p.cfg.Board.Overview(ctx, acted)
	if err != nil {
		v := overviewPage{Overview: o, Failed: err}
		p.cfg.Logger.ErrorContext(ctx, "reading the overview failed", "error", err)
		v.Verdict = p.unread(err)
		return v
	}
	v := newOverviewPage(o)
	if err := p.showRange(ctx, &v, of, acted); err != nil { // the verdict matters more than the chart
		p.cfg.Logger.WarnContext(ctx, "reading the range of the chart failed", "range", of, "error", err)
	}
	return v
}

// showRange shows another range of periods in the chart of the first page.
func (p overviews) showRange(ctx context.Context, v *overviewPage, of string, acted int64) error {
	i := slices.Index(periodNames(), of)
	if i < 0 || of == usual {
		return nil
	}
	last := periods[i].last
	a, err := p.cfg.Board.Axis(ctx, board.Range{Last: last, Ahead: min(last, day)}, acted) // a forecast has the next day
	if err == nil {
		v.Axis = newAxis(a.Cells, v.Overview.Trouble, v.Now)
		v.Said, v.Choices = around(of)
	}
	return err
}

// around says which slots the first page shows for a range of periods, and has the ranges to choose.
func around(of string) (said string, list []choice) {
	for _, one := range periods {
		path := link("/", "range", one.name)
		if one.name == usual {
			path = "/"
		}
		list = append(list, choice{one.name, path, one.name == of})
		switch {
		case one.name != of:
		case one.last <= day:
			said = "Slots of the last and the next " + one.said
		default:
			said = "Slots of the last " + one.said + " and the next 24 hours"
		}
	}
	return said, list
}

// unread is the verdict if the overview cannot be read.
func (p overviews) unread(err error) verdict {
	v := verdict{
		Mark: "bad", Text: "The state cannot be read", Count: 1,
		Detail: "The log of " + p.cfg.Command + " has the error.",
	}
	switch {
	case errors.Is(err, pgsql.ErrNotMigrated):
		v.Text = "The database has no tables of prescient"
		v.Detail = "No check runs before they exist. " + err.Error() + "."
	case pg.HasState(err, pqerror.InsufficientPrivilege):
		v.Text, v.Detail = "The database refuses this server", "Its login may not read the tables: it needs the role of "+
			"a reader, which the command migrate roles makes. "+v.Detail
	case pg.HasState(err, pqerror.InvalidPassword, pqerror.InvalidAuthorizationSpecification):
		v.Text, v.Detail = "The database refuses the log-in of this server", "PostgreSQL runs, and refuses the name or the "+
			"password. Correct the URL of the database in the settings, or PGPASSWORD or ~/.pgpass if it has no password, "+
			"and start "+p.cfg.Command+" again: its command doctor tells which is used. "+v.Detail
	case errors.Is(err, web.ErrLate), errors.Is(err, context.DeadlineExceeded), pg.IsTransient(err):
		v.Text = "The database does not answer"
		v.Detail = "Slots that begin meanwhile are missed. When it answers again, catch-up runs their rows. " + v.Detail
	}
	return v
}

// fragments returns the parts of pages that change, with the chart of a range of periods.
func (p overviews) fragments(ctx context.Context, of string) fragments {
	v := p.read(ctx, of, 0)
	list := map[string]part{"state": {"state", v.Verdict}, "verdict": {"verdict", v}}
	if v.Failed == nil { // after an error the page keeps the last state
		list["axis"], list["figures"], list["trouble"] = part{"axis-part", v}, part{"figures", v}, part{"trouble", v}
	}
	return p.parts(ctx, "overview", list)
}

func newOverviewPage(o board.Overview) overviewPage {
	v := overviewPage{Overview: o}
	v.Findings = seq.Map(o.Findings, func(f health.Finding) finding { return finding{f, leads(f)} })
	v.Trouble = o.Trouble[:min(shownTrouble, len(o.Trouble))]
	v.MoreTrouble = len(o.Trouble) - len(v.Trouble) + int(o.MoreMissed+o.MoreOpen)
	loud := o.JobLines()
	v.Listed = jobTable{heads(sorting{path: "/jobs", by: worstFirst}, jobFields, false), loud[:min(shownJobs, len(loud))]}
	v.MoreJobs = len(loud) - len(v.Listed.Jobs)
	v.Axis = newAxis(o.Axis, o.Trouble, o.Now)
	v.Said, v.Choices = around(usual)
	v.Verdict, v.Figures = v.judge(), v.figures()
	return v
}

// judge returns the verdict of the page.
func (v overviewPage) judge() verdict {
	answer := verdict{Mark: "ok", Text: "All is well", Detail: v.summary(), Count: len(v.Findings)}
	switch n := len(v.Findings); {
	case n == 1:
		answer.Mark, answer.Text = "bad", "One thing is wrong"
	case n > 1:
		answer.Mark, answer.Text = "bad", num(n)+" things are wrong"
	case v.Overdue > 0:
		answer.Mark, answer.Text, answer.Count = "warn", "No run has begun", 1
		answer.Detail = fmt.Sprintf("Slot %s began %s, and no run has opened it. %s. %s", v.clock(v.CurrentSlot),
			spoken.Ago(v.CurrentSlot, v.Now), counted(v.OverdueCount(), "row waits in it", "rows wait in it"), v.summary())
	case time.Duration(v.Age) > tooOld:
		answer.Mark, answer.Text = "warn", "All was well "+dur(v.Age)+" ago"
	}
	return answer
}

// summary says which slot was run last, and which comes next.
func (v overviewPage) summary() string {
	var last, next *board.Cell
	for i, c := range v.Overview.Axis {
		switch {
		case c.State == slots.StateDone:
			last = &v.Overview.Axis[i]
		case next == nil && c.State == view.StateAhead:
			next = &v.Overview.Axis[i]
		}
	}
	var said []string
	if last != nil {
		run := v.inLedger(*last)
		run.Forecast = nil // the forecast of its coming slots
		was := "Slot " + v.clock(run.Slot) + " was run: "
		if run.Slots > 1 {
			was = num(run.Done) + " of " + v.several(run) + " " + spoken.Noun(run.Done, "was", "were") + " run: "
			switch {
			case run.Done == run.Slots:
				was = "The " + v.several(run) + " were run: "
			case v.NextSlot.Before(run.Slot.Add(time.Duration(run.Span))):
				was = "So far, " + was
			}
		}
		said = append(said, was+strings.TrimPrefix(says(run), "run, ")+".")
	}
	if v.LastRun != nil && (last == nil || last.Slots > 1) { // a bar of several slots does not tell it
		said = append(said, "The last run: "+v.Last()+".")
	}
	for _, c := range v.Running {
		text := "Slot " + v.clock(c.Slot) + " is being run; " + counted(c.Count(), "row waits", "rows wait") + " in it"
		if c.WaitedFor != "" {
			text += ", and waited for a lock of " + c.WaitedFor
		}
		said = append(said, text+".")
	}
	switch {
	case next == nil || next.Forecast == nil:
		said = append(said, "The next slot is "+v.clock(v.NextSlot)+".")
	case next.Slots > 1:
		said = append(said, "The next slot is "+v.clock(v.NextSlot)+".", "The "+v.several(*next)+": "+says(*next)+".")
	default:
		said = append(said, "The next slot is "+v.clock(next.Slot)+": "+says(*next)+".")
	}
	return strings.Join(said, " ")
}

// inLedger leaves out the slots of a cell that are from before the ledger began.
func (v overviewPage) inLedger(c board.Cell) board.Cell {
	if width := time.Duration(v.Width); width > 0 && v.Since.After(c.Slot) {
		before := (v.Since.Sub(c.Slot) + width - 1) / width
		c.Slot, c.Slots, c.Span = c.Slot.Add(before*width), c.Slots-int64(before), c.Span-duration.Text(before*width)
	}
	return c
}

// several describes a cell of narrow slots.
func (v overviewPage) several(c board.Cell) string {
	return num(c.Slots) + " slots from " + v.clock(c.Slot) + " on"
}

// clock returns the time of day of a slot, with seconds if slots are narrower than a minute.
func (v overviewPage) clock(slot time.Time) string {
	if w := time.Duration(v.Width); 0 < w && w < time.Minute {
		return slot.Format("15:04:05")
	}
	return slot.Format("15:04")
}

// figures returns the numbers below the axis that are not zero, each with the page that tells more.
func (v overviewPage) figures() []figure {
	var failing, failed, gaveUp, unknown, late int64
	for i := range v.Jobs {
		j := &v.Jobs[i]
		failing, late = failing+one(health.Failing(j)), late+one(health.Late(j))
		failed, gaveUp, unknown = failed+j.Failed, gaveUp+j.GaveUp, unknown+one(j.Unserved)
	}
	list := []figure{
		{Name: "Overdue", Value: tally(v.OverdueCount()), Note: "rows", Mark: "bad", Path: "/ledger"},
		{
			Name: "Missed", Value: count(int64(len(v.Missed)) + v.MoreMissed), Note: "slots that no run has opened", Mark: "bad",
			Path: "/ledger",
		},
		{
			Name: "Opened late", Value: count(v.OpenedLate.Slots), Note: v.openedLate(), Mark: "warn", Path: "/ledger",
		},
		{
			Name: "Stranded", Value: count(int64(len(v.LeftOpen)+len(v.Stragglers)) + v.MoreOpen),
			Note: "slots with rows left in them", Mark: "bad", Path: "/ledger",
		},
		{
			Name: "Failing", Value: count(failing), Note: "jobs: most checks of their last slot failed", Mark: "bad",
			Path: "/jobs",
		},
		{Name: "Failed", Value: count(failed), Note: "checks, in 24 hours", Path: "/jobs"},
		{
			Name: "Given up", Value: count(gaveUp), Note: "rows, in 24 hours", Mark: "bad",
			Path: link("/ended", "outcome", jobs.OutcomeFailed),
		},
		{Name: "Late", Value: count(late), Note: "jobs that broke their SLA", Mark: "bad", Path: "/jobs"},
		{
			Name: "Unserved", Value: count(unknown), Note: "jobs that no run of the last 7 days had", Mark: "bad", Path: "/jobs",
		},
		{Name: "Paused", Value: count(len(v.Paused)), Note: "jobs", Mark: "warn", Path: "/jobs"},
		{Name: "Schedules", Value: count(len(v.Schedules)), Note: "have missed something", Mark: "warn", Path: "/schedules"},
	}
	return shown(list)
}

// openedLate tells of the slots that were opened late, such as after an outage that is over.
func (v overviewPage) openedLate() string {
	o := v.OpenedLate
	text := spoken.Noun(o.Slots, "slot", "slots") + " in 24 hours, by up to " + dur(o.Longest)
	if o.CaughtUp > 0 {
		text += "; " + num(o.CaughtUp) + " by catch-up"
	}
	return text
}

// count is the value of a figure.
func count[N int | int64](n N) template.HTML { return tally(ledger.Count{N: int64(n)}) }

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// Rows returns the bars that the table shows: those with rows or a problem.
func (a axis) Rows() (list []bar) {
	for _, b := range a.Bars {
		if rows(b.Cell) > 0 || b.Trouble() {
			list = append(list, b)
		}
	}
	return list
}

// Wrong lists the problems of a bar.
func (b bar) Wrong() string {
	var said []string
	for _, wrong := range []struct {
		is   bool
		text string
	}{
		{b.Missed > 0, "missed"},
		{b.State == slots.StateOpen, "left open"},
		{b.Late, "rows came late"},
		{b.TooLong, "too long"},
		{b.WaitedFor != "", "waited for a lock"},
		{b.Failed > 0, "checks failed"},
	} {
		if wrong.is {
			said = append(said, wrong.text)
		}
	}
	return strings.Join(said, ", ")
}
