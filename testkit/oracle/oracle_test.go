// Package oracle_test compares rules with a second implementation of what docs/rules.md says. It was written from that
// page, and shares no code with internal/rule: clocks and calendars walk through time, and expressions are functions in Go.
// Random files have random rows and edits, in virtual time with outages. Files are edited and applied again.
package oracle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/backtest"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const schema = `create table shop.o (
		%[1]s, primary key (%[3]s), created_at timestamptz, local_at timestamp, due date, ms bigint, data jsonb, held int,
		closed_at timestamptz, closed_local timestamp, closed_on date, paid boolean, status text, amount int, tag text,
		channel_id int, len interval, mins int, pace interval, nags int, tz text, region text, n int%[4]s);
	create table shop.channel (id int primary key, minutes int, live boolean, region text);
	create table shop.payment (%[2]s, at timestamptz);
	create table shop.beat (%[2]s, at timestamptz);
	create index on shop.payment (o_id);
	create index on shop.beat (o_id);
	create table shop.log (rule text, key text, since timestamptz, step text, number int, payload jsonb);`

// world is a random file with random rows, in the engine and in models.
type world struct {
	*random
	*tables
	t         *testing.T
	kit       *testkit.Kit
	calendars []*calendar
	rules     []*theRule
	models    []*model
	keys      []string // of all rows that there have been
	key       key
	width     time.Duration
	path      string

	mu   sync.Mutex
	told map[string]bool // jobs that ran: the step and the key

	history map[string][]string // of keys
	unsure  map[string]bool     // of rules and keys

	versions map[string]string // former ones of rules
}

// The engine fires what the models fire, and a test on the past counts as they do. With PRESCIENT_TEST_LONG, about
// 100,000 rows wait. The name of a subtest is the seed of a file and the number of its rows. PRESCIENT_TEST_SEED repeats
// it: PRESCIENT_TEST_SEED=17/30 go test ./testkit/oracle.
//
// Some rows depend on when a check looks at other tables. Three models bound that: one looks when a step is due, one in
// each slot, and one fires spread rows last. Rows for which they differ are not compared.
func TestTheEngineFiresWhatTheOracleFires(t *testing.T) {
	t.Parallel()
	seeds, rows := []uint64{1, 2}, 60
	if testing.Short() {
		seeds = seeds[:1]
	}
	first := uint64(time.Now().UnixNano() % 1_000_000)
	if os.Getenv("PRESCIENT_TEST_LONG") != "" {
		seeds, rows = nil, 200
		for i := range uint64(100) {
			seeds = append(seeds, first+i)
		}
	}
	if text, n, _ := strings.Cut(os.Getenv("PRESCIENT_TEST_SEED"), "/"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
		if n != "" {
			if rows, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("%d/%d", seed, rows), func(t *testing.T) {
			t.Parallel()
			newWorld(t, seed).live(rows)
		})
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	r := &random{Rand: rand.New(rand.NewPCG(seed, 40))}
	width := pick(r, []time.Duration{15 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour})
	r.days = max(2, int(160*width/day))
	r.start = time.Date(2026, time.January, 20+r.IntN(330), r.IntN(24), 7, 0, 0, time.UTC)
	if r.chance(50) { // clocks change
		r.start = time.Date(2026, pick(r, []time.Month{time.March, time.October}), 10+r.IntN(10), r.IntN(24), 7, 0, 0, time.UTC)
	}
	w := &world{
		random: r, t: t, calendars: r.calendars(), told: map[string]bool{}, history: map[string][]string{},
		unsure: map[string]bool{}, versions: map[string]string{}, key: pick(r, kinds),
		width: width,
		tables: &tables{
			rows: map[string]row{}, channels: map[int]channel{}, payments: map[string][]time.Time{}, beats: map[string][]time.Time{},
		},
	}
	acted, registry := "", jobs.NewRegistry()
	for i := range 6 {
		rule := r.rule(fmt.Sprintf("r%d", i+1), w.calendars)
		w.rules = append(w.rules, rule)
		acted += fmt.Sprintf(", acted_%s boolean not null default false", rule.name)
		for n := range 12 {
			step := fmt.Sprintf("%s.s%d", rule.name, n+1)
			registry.Register("tell."+step, jobs.Row(func(_ context.Context, row jobs.FutureJob) (*time.Time, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.told[step+" "+row.EntityKey] = true
				return nil, nil
			}))
		}
	}
	w.kit = testkit.New(t, testkit.Config{Registry: registry, Start: r.start, Width: w.width})
	w.exec(pgtest.CreateSchema("shop"))
	w.exec(fmt.Sprintf(schema, w.key.declare(""), w.key.declare("o_"), w.key.columns(""), acted))
	for i := range 3 {
		w.channels[i+1] = channel{minutes: 60 + r.IntN(2000), live: true, region: pick(r, w.calendars).name}
	}
	w.channels[2] = channel{minutes: w.channels[2].minutes, live: r.chance(50), region: "lunch"}
	w.channels[3] = channel{minutes: nil, live: true, region: "night"}
	for id, c := range w.channels {
		w.exec(fmt.Sprintf("insert into shop.channel values (%d, %s, %t, '%s')", id, literal(c.minutes), c.live, c.region))
	}
	for _, v := range []struct{ eager, last bool }{{false, false}, {false, true}, {true, false}} {
		own := *w.tables
		own.rows = map[string]row{}
		w.models = append(w.models, newModel(&own, w.rules, w.width, v.eager, v.last))
	}
	return w
}

func (w *world) exec(query string) {
	w.t.Helper()
	if _, err := w.kit.DB.ExecContext(w.t.Context(), query); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}

func (w *world) now() time.Time { return w.kit.Now() }

// live lets rows live.
func (w *world) live(rows int) {
	w.t.Helper()
	for range rows / 2 {
		w.insertRow(w.time(), false)
	}
	for _, m := range w.models { // no row waits before the first apply, from which on changes count
		m.forget()
		for _, values := range m.rows {
			values[changedAt] = w.now()
			m.holds(nil, values, w.now())
		}
	}
	w.apply(w.rules...)
	end := w.start.AddDate(0, 0, w.days)
	outage := false
	for moment := range 60 {
		at := w.now().Add(time.Duration(w.Int64N(int64(2 * end.Sub(w.now()) / time.Duration(60-moment))))).Truncate(time.Minute)
		if outage {
			w.kit.Clock.Set(at)
		} else {
			w.runUntil(at)
		}
		for range max(rows/20, 1) {
			w.edit()
		}
		if w.chance(8) {
			w.editFile()
		}
		if outage = w.chance(15) && !outage; !outage {
			w.runDue()
			w.compare()
		}
	}
	w.runUntil(w.now().Add(3 * w.width))
	w.compare()
	w.compareJobs()
	w.comparePast()
	n, all := len(w.unsure), len(w.keys)*len(w.rules)
	w.t.Logf("%d rows, of which the models do not know %d", all, n)
	if n*3 > all*2 {
		w.t.Error("those are too many")
	}
}

func (w *world) runUntil(at time.Time) {
	w.t.Helper()
	for slot := w.models[0].ceil(w.now()); !slot.After(at); slot = slot.Add(w.width) {
		for _, m := range w.models {
			m.run(slot)
		}
	}
	for _, result := range w.kit.RunUntil(at) {
		if result.Failed > 0 {
			w.t.Fatalf("%+v", result)
		}
	}
}

func (w *world) runDue() {
	w.t.Helper()
	for _, m := range w.models {
		m.run(w.now())
	}
	for _, result := range w.kit.RunDue() {
		if result.Failed > 0 {
			w.t.Fatalf("%+v", result)
		}
	}
}

func (w *world) tell(key, format string, args ...any) {
	w.history[key] = append(w.history[key], stamp(w.now())+": "+fmt.Sprintf(format, args...))
}

func (w *world) newKey() string { return w.key.nth(len(w.keys) + 1) }

func (w *world) insertRow(at time.Time, again bool) {
	w.t.Helper()
	key := w.newKey()
	if again {
		key = pick(w.random, w.keys)
		if w.rows[key] != nil {
			return
		}
	} else {
		w.keys = append(w.keys, key)
	}
	values := w.fresh(key, at)
	w.rows[key] = values
	insert := values.with(w.key.values(key)).insert()
	w.exec(insert)
	w.tell(key, "%s", insert)
	for _, m := range w.models {
		m.inserted(values.with(row{}), w.now())
	}
}

// edit does something to a random row.
func (w *world) edit() {
	w.t.Helper()
	key := pick(w.random, w.keys)
	what := w.IntN(100)
	switch {
	case what < 12:
		w.insertRow(w.near(w.now().Add(3*day)), false)
	case what < 15:
		w.insertRow(w.near(w.now()), true)
	case w.rows[key] == nil:
	case what < 20:
		w.exec("delete from shop.o where " + w.key.is("", key))
		w.tell(key, "delete")
		delete(w.rows, key)
		for _, m := range w.models {
			m.deleted(key, w.now())
		}
	case what < 28 && len(w.payments[key]) > 0 && w.chance(30):
		w.exec("delete from shop.payment where " + w.key.is("o_", key))
		w.tell(key, "payments are deleted")
		delete(w.payments, key)
		w.wrote("shop.payment", key)
	case what < 28:
		at := w.near(w.now().Add(2 * day))
		w.exec(fmt.Sprintf("insert into shop.payment values (%s, %s)", w.key.list(key), literal(at)))
		w.tell(key, "payment %s", stamp(at))
		w.payments[key] = append(w.payments[key], at)
		w.wrote("shop.payment", key)
	case what < 40:
		at := w.near(w.now())
		w.exec(fmt.Sprintf("insert into shop.beat values (%s, %s)", w.key.list(key), literal(at)))
		w.tell(key, "beat %s", stamp(at))
		w.beats[key] = append(w.beats[key], at)
		w.wrote("shop.beat", key)
	case what < 41:
		w.setChannel()
	case what < 44:
		to := w.newKey()
		w.keys = append(w.keys, to)
		w.exec(fmt.Sprintf("update shop.o set (%s) = row(%s) where %s", w.key.columns(""), w.key.list(to), w.key.is("", key)))
		w.tell(key, "has the key %s", to)
		w.history[to] = slices.Clone(w.history[key])
		w.rows[to] = w.rows[key].with(row{"id": to})
		delete(w.rows, key)
		for _, m := range w.models {
			m.renamed(key, to, w.now())
		}
	default:
		w.update(key)
	}
}

// wrote tells the models of a write to another table.
func (w *world) wrote(table, key string) {
	for _, m := range w.models {
		m.wrote(table, key, w.now())
	}
}

func (w *world) setChannel() {
	w.t.Helper()
	id := 1 + w.IntN(2)
	c := w.channels[id]
	c.minutes = c.minutes.(int) + w.IntN(500)
	w.channels[id] = c
	w.exec(fmt.Sprintf("update shop.channel set minutes = %s where id = %d", literal(c.minutes), id))
}

func (w *world) update(key string) {
	w.t.Helper()
	changes := row{}
	for range 1 + w.IntN(3) {
		c := pick(w.random, columns)
		switch {
		case w.chance(5):
			c = "acted_" + pick(w.random, w.rules).name
			changes[c] = false
		case w.chance(20):
			c = pick(w.random, []string{"closed_at", "paid", "status", "tag", "amount"})
			changes[c] = w.value(c, w.now())
		default:
			changes[c] = w.value(c, w.near(w.now()))
		}
	}
	sets := ""
	for _, c := range slices.Sorted(maps.Keys(changes)) {
		sets += ", " + c + " = " + literal(changes[c])
	}
	w.exec(fmt.Sprintf("update shop.o set %s where %s", sets[2:], w.key.is("", key)))
	w.tell(key, "update %s", sets[2:])
	w.rows[key] = w.rows[key].with(changes)
	for _, m := range w.models {
		m.updated(key, changes, w.now())
	}
}

// editFile changes some rules, and applies the file again.
func (w *world) editFile() {
	w.t.Helper()
	for range 1 + w.IntN(3) {
		r := pick(w.random, w.rules)
		before, timed, met := file(nil, []*theRule{r}), r.timed(), r.met
		w.random.edit(r, w.calendars)
		if r.met && !met {
			for _, m := range w.models {
				m.getsMet(r, w.now())
			}
		}
		if !r.recovered { // what fires before the rule gets recovered is not followed
			for _, m := range w.models {
				m.forgive(r)
			}
		}
		if file(nil, []*theRule{r}) != before {
			w.versions[r.name] += fmt.Sprintf("until %s:\n%s", stamp(w.now()), before)
		}
		if r.timed() != timed {
			w.apply(r)
		} else {
			w.apply()
		}
	}
}

// apply applies the file, of whose rules some are new or change when rows wait.
func (w *world) apply(changed ...*theRule) {
	w.t.Helper()
	text := w.key.file(file(w.calendars, w.rules))
	w.path = filepath.Join(w.t.TempDir(), "rules.yaml")
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.kit.Rules(w.path)
	for _, m := range w.models {
		for _, r := range changed {
			m.applied(r, w.now())
		}
	}
}

// compare compares what has fired.
func (w *world) compare() {
	w.t.Helper()
	got := w.fired()
	bad := 0
	for _, r := range w.rules {
		for _, key := range w.keys {
			id := r.name + " " + key
			want := w.models[0].acts(r, key)
			for _, m := range w.models {
				if !slices.Equal(w.models[0].all(r, key), m.all(r, key)) || m.of(r, key).unsure {
					w.unsure[id] = true
				}
			}
			slices.Sort(got[id])
			if diff := cmp.Diff(want, got[id]); diff != "" && !w.unsure[id] {
				bad++
				if bad > 3 {
					continue
				}
				w.t.Errorf("at %s, slots of %s: rule %s, key %s (-oracle +engine)\n%s\n%s", stamp(w.now()), w.width, r.name, key, diff,
					w.describe(r, key))
			}
		}
	}
	if bad > 0 {
		w.t.Fatalf("%d rows differ", bad)
	}
}

// fired returns what the engine has fired, by rule and key.
func (w *world) fired() map[string][]string {
	w.t.Helper()
	type parts struct {
		event, sql bool
		at         time.Time
		when       string
		told       time.Time
	}
	acts := map[string]map[string]parts{} // by rule and key, and by firing without acts
	add := func(name, key, step string, number int, since time.Time, payload json.RawMessage, change func(*parts)) {
		var values struct{ N int }
		if err := json.Unmarshal(payload, &values); err != nil {
			w.t.Fatalf("%s: %v", payload, err)
		}
		text := fmt.Sprintf("%s #%d since %s n %v:", step, number, stamp(since), values.N)
		if step == rule.RecoveredStep || step == rule.MetStep {
			text = fmt.Sprintf(step+" since %s n %v:", stamp(since), values.N)
		}
		id := name + " " + key
		if acts[id] == nil {
			acts[id] = map[string]parts{}
		}
		p := acts[id][text]
		change(&p)
		acts[id][text] = p
	}
	for _, e := range w.kit.Events() {
		var data struct {
			Rule, Step, Key string
			When            string
			Since, At       time.Time
			Number          int
			Payload         json.RawMessage
		}
		if err := json.Unmarshal(e.Data, &data); err != nil || !data.At.Equal(e.Time) {
			w.t.Fatal(string(e.Data), err)
		}
		add(data.Rule, data.Key, data.Step, data.Number, data.Since, data.Payload, func(p *parts) {
			p.event, p.at, p.when, p.told = true, e.Time, data.When, e.PublishedAt
		})
	}
	var logged []struct {
		Rule, Key, Step string
		Since           time.Time
		Number          int
		Payload         json.RawMessage
	}
	if err := w.kit.DB.Select(&logged, "select rule, key, step, since, coalesce(number, 0) as number, payload from shop.log"); err != nil {
		w.t.Fatal(err)
	}
	repeats := w.repeats()
	for _, l := range logged {
		if !repeats[l.Step] {
			l.Number = 0
		}
		add(l.Rule, l.Key, l.Step, l.Number, l.Since, l.Payload, func(p *parts) { p.sql = true })
	}
	got := map[string][]string{}
	for id, list := range acts {
		for text, p := range list {
			switch over := strings.HasPrefix(text, "recovered ") || strings.HasPrefix(text, "met "); {
			case !over && p.event:
				text += " event " + stamp(p.at)
			case over && p.when == "done" && p.at.Before(p.told):
				text += " done " + stamp(p.at)
			case over && p.when == "done":
				text += " done"
			case over:
				text += " moved"
			}
			if p.sql {
				text += " sql"
			}
			got[id] = append(got[id], text)
		}
	}
	return got
}

// repeats says which steps repeat.
func (w *world) repeats() map[string]bool {
	repeats := map[string]bool{}
	for _, r := range w.rules {
		maps.Copy(repeats, r.repeats)
	}
	return repeats
}

// tells returns the steps with a job that have fired, each with its key.
func (w *world) tells() map[string]bool {
	fired := map[string]bool{}
	for _, r := range w.rules {
		for _, key := range w.keys {
			for _, f := range w.models[0].fired[r.name][key] {
				if step, _, _ := strings.Cut(f, " "); r.tells[step] {
					fired[step+" "+key] = true
				}
			}
		}
	}
	return fired
}

// compareJobs compares the jobs that ran. Those of steps that fire now run in the next slot.
func (w *world) compareJobs() {
	w.t.Helper()
	fired := w.tells()
	w.runUntil(w.now().Add(w.width))
	w.compare()
	all := w.tells()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rules {
		for _, key := range w.keys {
			for s := range r.tells {
				id := s + " " + key
				if got := w.told[id]; (fired[id] && !got || got && !all[id]) && !w.unsure[r.name+" "+key] {
					w.t.Errorf("the job of step %s ran for key %s: %t, want %t\n%s", s, key, got, !got, w.describe(r, key))
				}
			}
		}
	}
}

// describe returns the versions of a rule, and what was done to a row.
func (w *world) describe(r *theRule, key string) string {
	return w.versions[r.name] + file(w.calendars, []*theRule{r}) + "\n" + strings.Join(w.history[key], "\n")
}

// readActed reads which rows the steps of the engine have closed: the models do not know all of them.
func (w *world) readActed() {
	w.t.Helper()
	for _, r := range w.rules {
		var acted []string
		if err := w.kit.DB.Select(&acted, "select "+w.key.text()+" from shop.o where acted_"+r.name); err != nil {
			w.t.Fatal(err)
		}
		for key, values := range w.models[0].rows {
			w.models[0].rows[key] = values.with(row{"acted_" + r.name: slices.Contains(acted, key)})
		}
	}
}

// comparePast compares a test on the past.
func (w *world) comparePast() {
	w.t.Helper()
	in, err := os.Open(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	parsed, err := rule.ParseIn(in, filepath.Dir(w.path))
	if err != nil {
		w.t.Fatal(err)
	}
	store, err := rulestore.New(w.t.Context(), w.kit.DB, rulestore.Config{Now: w.now})
	if err != nil {
		w.t.Fatal(err)
	}
	w.readActed()
	for i, r := range w.rules {
		applied, err := store.Understand(w.t.Context(), parsed, parsed.Rules[i])
		if err != nil {
			w.t.Fatal(err)
		}
		from, to := w.start.AddDate(0, 0, -w.days), w.now().Add(time.Hour)
		if r.changes() || len(r.pause) > 0 {
			continue
		}
		report, err := backtest.Run(w.t.Context(), w.kit.DB, applied, backtest.Config{
			From: from, To: to, Now: w.now(), Grid: w.kit.Client.Grid(), List: true,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		var got []string
		for _, f := range report.List {
			number := f.Number
			if !w.repeats()[f.Step] {
				number = 0
			}
			got = append(got, fmt.Sprintf("%s %s #%d %s in %s", f.Step, f.Key, number, stamp(f.Due), stamp(f.Slot)))
		}
		want, counts := w.models[0].past(r, from, to, w.now())
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("a test on the past of rule %s, slots of %s (-oracle +engine)\n%.3000s\n%s", r.name, w.width, diff, file(w.calendars, []*theRule{r}))
		}
		var sums []backtest.Counts
		for _, s := range report.Steps {
			sums = append(sums, s.Counts)
		}
		if diff := cmp.Diff(counts, sums); diff != "" {
			w.t.Errorf("a test on the past of rule %s (-oracle +engine)\n%s\n%s", r.name, diff, file(w.calendars, []*theRule{r}))
		}
	}
}
