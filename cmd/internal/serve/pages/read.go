package pages

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

const (
	listed     = 50 // lines of a list
	ledgerDays = 30
)

// reading reads the content of a page, for a template.
type reading struct {
	template string
	read     func(b *board.Board, r *http.Request) (page, error)
}

// readings are the pages that only read, by their path.
var readings = map[string]reading{
	"/slot":      {"slot", readSlot},
	"/ledger":    {"ledger", readLedger},
	"/jobs":      {"jobs", readJobs},
	"/job":       {"job", readJob},
	"/rules":     {"rules", readRules},
	"/rule":      {"rule", readRule},
	"/advice":    {"advice", readAdvice},
	"/entity":    {"entity", readEntity},
	"/schedules": {"schedules", readSchedules},
	"/schedule":  {"schedule", readSchedule},
	"/events":    {"events", readEvents},
	"/alerts":    {"alerts", readAlerts},
	"/actions":   {"actions", readActions},
	"/waiting":   {"checks", readWaiting},
	"/ended":     {"checks", readEnded},
}

// badAddress is returned if the address names no page.
type badAddress string

func (e badAddress) Error() string { return string(e) }

// handle shows the page that a reading returns, or its error.
func (s *site) handle(to reading) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := to.read(s.cfg.Board, r)
		if bad, ok := errors.AsType[badAddress](err); ok {
			s.fail(w, r, http.StatusBadRequest, bad.Error())
			return
		}
		if err != nil {
			s.failed(w, r, err)
			return
		}
		s.show(w, r, http.StatusOK, to.template, v)
	}
}

// acted returns the number of the last action of the visitor, 0 for none.
func acted(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.URL.Query().Get("acted"), 10, 64)
	return n
}

func readSlot(b *board.Board, r *http.Request) (page, error) {
	at, _, err := spoken.ParseInstant(r.URL.Query().Get("at"))
	if err != nil {
		return page{}, badAddress("The address names no slot: it ends in ?at=2026-03-01T13:15:00Z or the like.")
	}
	s, err := b.Slot(r.Context(), at, acted(r))
	if none, ok := errors.AsType[*board.NoSlotError](err); ok { // a timeline may name a slot of an earlier width
		return page{Title: "No slot", Section: "Ledger", Content: slotPage{Not: none}}, nil
	}
	if err != nil {
		return page{}, err
	}
	v := slotPage{Slot: s, Gauge: newGauge(time.Duration(s.Took), time.Duration(s.Width), s.WaitedFor != "")}
	v.Figures = v.figures()
	v.Jobs, v.listing, err = arrangePage(sortingOf(r), slotJobFields, s.Jobs, true, false, "The most rows first.")
	return page{Title: "Slot " + spoken.Instant(at), Section: "Ledger", Content: v}, err
}

type slotPage struct {
	board.Slot
	listing
	Figures []figure
	Gauge   gauge
	Not     *board.NoSlotError // nil if it is a slot
}

// StateNow returns the state of the slot: running if it is open and a runner is at it.
func (p slotPage) StateNow() slots.State {
	if p.State == slots.StateOpen && slices.ContainsFunc(p.Claims, func(c ledger.Claim) bool { return c.Live }) {
		return board.StateRunning
	}
	return p.State
}

type jobsPage struct {
	Table       jobTable
	Search      string
	Later       bool   // it is not the first page
	First, More string // addresses; More is empty on the last page
}

// jobTable is a table of jobs.
type jobTable struct {
	Heads []head
	Jobs  []board.JobLine
}

func readJobs(b *board.Board, r *http.Request) (page, error) {
	q := r.URL.Query()
	after, err := positionIn(r, "after", board.ParseJobsPosition)
	if err != nil {
		return page{}, err
	}
	order := sortingOf(r)
	order.by = cmp.Or(order.by, worstFirst)
	f := board.JobsFilter{
		Search: q.Get("search"), After: after, Limit: listed, Order: board.JobsOrder{By: order.by, Desc: order.desc},
	}
	all, err := b.Jobs(r.Context(), f, acted(r))
	v := jobsPage{
		Table: jobTable{heads(order, jobFields, false), all.Jobs}, Search: f.Search, Later: q.Get("after") != "",
		First: order.link(order.by, order.desc),
	}
	if all.After != nil {
		order.query.Set("after", *all.After)
		v.More = order.link(order.by, order.desc)
	}
	return page{Title: "Jobs", Section: "Jobs", Content: v}, err
}

// worstFirst is the column by which lists of jobs are ordered if the address names none.
const worstFirst = "state"

type jobPage struct {
	board.Job
	listing
	Figures    []figure
	Choices    []choice  // of ranges
	Shown      string    // the range
	Sorted     bool      // the address gives the order of the table of slots
	Chart      *jobChart // nil if there is nothing to draw
	AheadChart *plot     // nil if no row waits
	WasRule    bool      // slots had it, and no run knows it: only a rule that was removed is so
	of         period
}

// CellLink returns the address of what a cell stands for.
func (p jobPage) CellLink(c board.JobCell) string { return cellLink(c, p.Width, p.of) }

func readJob(b *board.Board, r *http.Request) (page, error) {
	of, err := periodOf(r)
	if err != nil {
		return page{}, err
	}
	j, err := b.Job(r.Context(), board.JobIn{Name: r.URL.Query().Get("name"), Range: of.Range}, acted(r))
	if err != nil {
		return page{}, err
	}
	order, now := sortingOf(r), b.Now()
	v := jobPage{
		Job: j, Sorted: order.by != "", Chart: newJobChart(j, of, now), AheadChart: newAheadChart(j.Ahead, b.Width(), now),
		WasRule: (len(j.Cells) > 0 || j.LastSlot != nil) && !j.Registered && j.ServedAt == nil,
		Choices: of.choices(j.From, j.To, now, len(j.Cells) > 0 || j.LastSlot != nil), Shown: rangeText(j.From, j.To), of: of,
	}
	v.Figures = v.figures()
	v.Cells, v.listing, err = arrangePage(order, jobCellFields, j.Cells, true, false, "The newest first.")
	return page{Title: cut(60, j.JobExec), Section: "Jobs", Content: v}, err
}

type rulesPage struct {
	listing
	Rules []view.Rule
}

func readRules(b *board.Board, r *http.Request) (page, error) {
	all, err := b.Rules(r.Context(), acted(r))
	if err != nil {
		return page{}, err
	}
	v := rulesPage{}
	v.Rules, v.listing, err = arrangePage(sortingOf(r), ruleFields, all.Rules, true, false, "")
	return page{Title: "Rules", Section: "Rules", Content: v}, err
}

type rulePage struct {
	board.Rule
	Figures    []figure
	AheadChart *plot // nil: there is nothing to draw
}

// FiredBy returns what a step has fired.
func (p rulePage) FiredBy(step string) view.FiredStep {
	for _, f := range p.Fired {
		if f.Step == step {
			return f
		}
	}
	return view.FiredStep{Step: step}
}

// Share returns how often a step has fired, in hundredths of the step that has fired most often.
func (p rulePage) Share(step string) int64 {
	most := int64(1)
	for _, f := range p.Fired {
		most = max(most, f.Fired)
	}
	return 100 * p.FiredBy(step).Fired / most
}

func readRule(b *board.Board, r *http.Request) (page, error) {
	v, err := b.Rule(r.Context(), r.URL.Query().Get("name"), acted(r))
	if err != nil {
		return page{}, err
	}
	p := rulePage{Rule: v, AheadChart: newAheadChart(v.Ahead, b.Width(), b.Now())}
	p.Figures = p.figures()
	return page{Title: cut(60, v.Name), Section: "Rules", Content: p}, nil
}

func readAdvice(b *board.Board, r *http.Request) (page, error) {
	v, err := b.Advice(r.Context(), r.URL.Query().Get("name"), acted(r))
	return page{Title: "Advice on " + cut(60, v.JobExec), Section: "Jobs", Content: v}, err
}

// entityPage is the timeline of an entity, by row.
type entityPage struct {
	board.Entity
	Rows []entityRow
}

// entityRow is the timeline of one row.
type entityRow struct {
	ID               int64
	JobExec, ItemKey string
	Timeline         []sentence
	State            verdict
	Waits, Failed    bool
	Acked            bool // its failure was acknowledged
	Attempts         []board.Sentence
	Check            *view.CheckData // nil: it was not read
}

// OfSchedule reports whether the row belongs to a schedule, which has a page of its own.
func (r entityRow) OfSchedule() bool { return r.JobExec == schedule.JobExec }

// Cancels returns how many waiting checks the cancellation of the entity ends: all except those of
// a schedule.
func (e entityPage) Cancels() int64 {
	n := e.Waiting
	for _, row := range e.Rows {
		if row.Waits && row.OfSchedule() {
			n--
		}
	}
	return n
}

// sentence is an event of a timeline, with its slot.
type sentence struct {
	At   *time.Time
	Text string
	Slot *time.Time
}

func readEntity(b *board.Board, r *http.Request) (page, error) {
	name, key := r.URL.Query().Get("name"), r.URL.Query().Get("key")
	v := page{Title: cut(60, name+" "+key), Search: search{name, key}}
	if name == "" || key == "" {
		v.Title, v.Content = "Find an entity", entityPage{}
		return v, nil
	}
	e, err := b.Entity(r.Context(), jobs.Key{EntityName: name, EntityKey: key}, acted(r))
	rows := entityRows(e.Timeline)
	for i := range rows {
		if n := slices.IndexFunc(e.Checks, func(c view.CheckData) bool { return c.ID == rows[i].ID }); n >= 0 {
			rows[i].Check = &e.Checks[n]
		}
	}
	v.Content = entityPage{e, rows}
	return v, err
}

// entityRows divides a timeline into its rows, the newest first.
func entityRows(all []board.Sentence) (list []entityRow) {
	again := func(i int) (int64, bool) { return all[i].ID, all[i].What == "next" && len(all[i].Fired) == 0 }
	for i, last := range spoken.Stretches(len(all), again) {
		s := all[i]
		if i == 0 || s.ID != all[i-1].ID {
			list = append(list, entityRow{ID: s.ID, JobExec: s.JobExec, ItemKey: s.ItemKey})
		}
		row := &list[len(list)-1]
		said := sentence{At: s.At, Text: s.Text}
		if s.Lateness != nil || s.What == "waiting" {
			said.Slot = &all[i].Slot
		}
		if last > i {
			said.Text, said.Slot = spoken.Again(last-i+1, all[last].Slot), &all[last].Slot
		}
		row.Timeline = append(row.Timeline, said)
		if s.What == "retry" || s.What == string(jobs.OutcomeFailed) {
			row.Attempts = append(row.Attempts, s)
		}
		if s.What == "acked" {
			row.Acked = true
			continue
		}
		row.State = verdict{Mark: "run", Text: "in between"}
		switch {
		case s.What == "waiting":
			row.Waits, row.State = !s.Anonymous, verdict{Mark: "idle", Text: "waits"}
			if s.Hindrance != "" {
				row.State = verdict{Mark: "warn", Text: "waits: " + words(s.Hindrance)}
			}
		case slices.Contains(jobs.Outcomes(), jobs.Outcome(s.What)):
			row.Failed, row.State = s.What == string(jobs.OutcomeFailed), endMark(jobs.Outcome(s.What))
		}
	}
	slices.Reverse(list)
	return list
}

type schedulesPage struct {
	board.Schedules
	listing
	Filter schedule.Filter
}

// States returns the states to choose from.
func (schedulesPage) States() []schedule.State {
	return []schedule.State{schedule.Active, schedule.Paused, schedule.Ended}
}

func readSchedules(b *board.Board, r *http.Request) (page, error) {
	q, order := r.URL.Query(), sortingOf(r)
	f := schedule.Filter{
		Prefix: q.Get("prefix"), State: schedule.State(q.Get("state")),
		After: q.Get("after"), Limit: order.limit(),
	}
	all, err := b.Schedules(r.Context(), f, acted(r))
	if err != nil {
		return page{}, err
	}
	v := schedulesPage{Schedules: all, Filter: f}
	v.Schedules.Schedules, v.listing, err = arrangePage(
		order, scheduleFields, all.Schedules, f.After == "", all.After != nil, "By id.")
	return page{Title: "Schedules", Section: "Schedules", Content: v}, err
}

func readSchedule(b *board.Board, r *http.Request) (page, error) {
	s, err := b.Schedule(r.Context(), r.URL.Query().Get("id"), acted(r))
	return page{Title: cut(60, s.ID), Section: "Schedules", Content: s}, err
}

// ledgerPage is the heat map of some days, or the chart of a range.
type ledgerPage struct {
	board.Ledger
	listing
	Heat    heat
	Sums    []daySum
	Axis    *axis    // of the range; nil: the heat map is shown
	Choices []choice // of ranges
	Bars    []bar    // of the range, in the order of the table
}

func readLedger(b *board.Board, r *http.Request) (page, error) {
	q := r.URL.Query()
	if day := q.Get("day"); day != "" {
		return readDay(b, r, day)
	}
	if q.Has("range") || q.Has("from") || q.Has("to") {
		of, err := periodOf(r)
		if err != nil {
			return page{}, err
		}
		return readRange(b, r, of)
	}
	l, err := b.Ledger(r.Context(), ledgerDays, acted(r))
	if err != nil {
		return page{}, err
	}
	l.Days = slices.DeleteFunc(slices.Clone(l.Days), beforeLedger)
	v := ledgerPage{Ledger: l, Heat: newHeat(l.Days)}
	v.Sums, v.listing, err = arrangePage(sortingOf(r), dayFields, daySums(l.Days), true, false, "")
	return page{Title: "Ledger", Section: "Ledger", Content: v}, err
}

// readDay reads the range of a day.
func readDay(b *board.Board, r *http.Request, text string) (page, error) {
	from, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return page{}, badAddress("day: must be a date, such as 2026-03-01.")
	}
	of := period{Range: board.Range{From: from, To: from.Add(day)}, path: r.URL.Path, query: url.Values{}}
	return readRange(b, r, of)
}

// readRange reads the slots of a range of the ledger.
func readRange(b *board.Board, r *http.Request, of period) (page, error) {
	a, err := b.Axis(r.Context(), of.Range, acted(r))
	if err != nil {
		return page{}, err
	}
	o, err := b.Overview(r.Context(), acted(r))
	if err != nil {
		return page{}, err
	}
	chart := newAxis(a.Cells, o.Trouble, b.Now())
	v := ledgerPage{Axis: &chart, Choices: of.choices(a.From, a.To, b.Now(), a.Cells[0].State != view.StateNoLedger)}
	v.Bars, v.listing, err = arrangePage(sortingOf(r), cellFields, chart.Bars, true, false, "")
	return page{Title: rangeText(a.From, a.To), Section: "Ledger", Content: v}, err
}

type eventsPage struct {
	board.Events
	listing // of the dead letters
	Dead    board.DeadLetters
}

func readEvents(b *board.Board, r *http.Request) (page, error) {
	after, err := positionIn(r, "after", outbox.ParsePosition)
	dead, bad := positionIn(r, "dead", board.ParseNumber)
	if err = cmp.Or(err, bad); err != nil {
		return page{}, err
	}
	v, order := eventsPage{}, sortingOf(r)
	v.Events, err = b.Events(r.Context(), board.Page[outbox.Position]{After: after, Limit: listed}, acted(r))
	if err != nil {
		return page{}, err
	}
	v.Dead, err = b.DeadLetters(r.Context(), board.Page[int64]{After: dead, Limit: order.limit()}, acted(r))
	if err != nil {
		return page{}, err
	}
	v.Dead.DeadLetters, v.listing, err = arrangePage(order, deadFields, v.Dead.DeadLetters, dead == 0, v.Dead.After != nil,
		"In the order in which they are sent again.")
	return page{Title: "Events", Section: "Events", Content: v}, err
}

type alertsPage struct {
	listing
	Alerts []view.Alert
}

func readAlerts(b *board.Board, r *http.Request) (page, error) {
	all, err := b.Alerts(r.Context(), acted(r))
	if err != nil {
		return page{}, err
	}
	v := alertsPage{}
	v.Alerts, v.listing, err = arrangePage(sortingOf(r), alertFields, all.Alerts, true, false, "")
	return page{Title: "Alerts", Section: "Alerts", Content: v}, err
}

type actionsPage struct {
	board.Actions
	New *board.Done // the action that was just done; nil: none
}

func readActions(b *board.Board, r *http.Request) (page, error) {
	after, err := positionIn(r, "after", board.ParseNumber)
	if err != nil {
		return page{}, err
	}
	all, err := b.Actions(r.Context(), board.Page[int64]{After: after, Limit: listed}, acted(r))
	v := actionsPage{Actions: all}
	id, _ := strconv.ParseInt(r.URL.Query().Get("id"), 10, 64)
	for i, a := range all.Actions {
		if a.ID == id {
			v.New = &all.Actions[i]
		}
	}
	return page{Title: "Actions", Section: "Actions", Content: v}, err
}

// checksPage lists the checks that rows wait for, or the rows that have ended.
type checksPage struct {
	listing
	picks
	Job      string
	Outcome  jobs.Outcome
	Outcomes []jobs.Outcome // to choose from; none if the checks wait
	Waiting  []view.Check
	Ended    []view.Ended
	More     string // the address of the next page; empty: this is the last
	// Since is how far back the page looked. Null: it looked at everything, or the next page goes on.
	Since *time.Time
}

// positionIn reads where a page of a list begins. Without one it is the first page.
func positionIn[T any](r *http.Request, name string, parse func(text string) (T, error)) (after T, err error) {
	if text := r.URL.Query().Get(name); text != "" {
		if after, err = parse(text); err != nil {
			err = badAddress("The address names no position in the list.")
		}
	}
	return after, err
}

func readWaiting(b *board.Board, r *http.Request) (page, error) {
	order := sortingOf(r)
	f := admin.Filter{JobExec: r.URL.Query().Get("job"), Limit: order.limit()}
	var err error
	if f.After, err = positionIn(r, "after", admin.ParsePosition); err != nil {
		return page{}, err
	}
	w, err := b.Waiting(r.Context(), f, acted(r))
	if err != nil {
		return page{}, err
	}
	v := checksPage{Job: f.JobExec}
	v.Waiting, v.listing, err = arrangePage(
		order, waitingFields, w.Checks, f.After.IsZero(), w.After != nil, "In the order of their slots.")
	v.picks = pickWaiting(r, v.Waiting)
	if w.After != nil {
		v.More = link("/waiting", "job", f.JobExec, "after", *w.After)
	}
	return page{Title: "What waits", Section: "Jobs", Content: v}, err
}

func readEnded(b *board.Board, r *http.Request) (page, error) {
	order := sortingOf(r)
	f := admin.HistoryFilter{
		JobExec: r.URL.Query().Get("job"),
		Outcome: jobs.Outcome(r.URL.Query().Get("outcome")), Limit: order.limit(),
	}
	var err error
	if f.After, err = positionIn(r, "after", admin.ParsePosition); err != nil {
		return page{}, err
	}
	h, err := b.History(r.Context(), f, acted(r))
	if err != nil {
		return page{}, err
	}
	v := checksPage{Job: f.JobExec, Outcome: f.Outcome, Outcomes: jobs.Outcomes()}
	v.Ended, v.listing, err = arrangePage(
		order, endedFields, h.Checks, f.After.IsZero(), h.After != nil, "The latest first.")
	v.picks = pickFailed(r, v.Ended)
	if h.After != nil {
		v.More = link("/ended", "job", f.JobExec, "outcome", f.Outcome, "after", *h.After)
	} else {
		v.Since = h.Since
	}
	return page{Title: "What has ended", Section: "Jobs", Content: v}, err
}
