package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
)

// twoStores are the schemas of the stores between which rows move.
var twoStores = []string{"prescient", "south"}

// movePoints are the statements at which a move is killed, by a part of their text.
var movePoints = map[string]string{
	"copies":  "from prescient.transfer_in",
	"claim":   "set mover",
	"notes":   "given_at",
	"read":    "journal_abroad",
	"receive": "receive_rows",
	"give":    "give_rows",
	"settle":  "settle_rows",
	"forget":  "transfer_out\nwhere batch",
	"drop":    "batch = any",
	"commit":  "commit",
}

// movable is how long before its slot a row can be moved, and some seconds.
const movable = 62 * time.Second

// makeStores makes the store; for moves both, with the configuration that names them.
func (t *torture) makeStores(ctx context.Context) error {
	if t.moved == 0 {
		return errors.Join(t.prescient(ctx, "migrate", "up"), t.prescient(ctx, "slots", "set-width", t.width().String()))
	}
	t.config = filepath.Join(t.dir, "stores.yaml")
	text := "stores:\n"
	for _, schema := range twoStores {
		text += fmt.Sprintf("  - {name: %s, schema: %[1]s}\n", schema)
	}
	if err := os.WriteFile(t.config, []byte(text), 0o600); err != nil {
		return err
	}
	if err := t.prescient(ctx, "migrate", "up"); err != nil {
		return err
	}
	for _, schema := range twoStores {
		if err := t.prescient(ctx, "slots", "set-width", t.width().String(), "--store", schema); err != nil {
			return err
		}
	}
	return nil
}

// inStores does what applications of two stores do, until ctx ends. A key that is asked for again is
// never cancelled, and no key is cancelled twice: a second cancel may find a copy that a move has made
// of the row before the first one.
func (m *mutator) inStores(ctx context.Context, worker int, pace time.Duration) {
	m.mu.Lock()
	random := rand.New(rand.NewPCG(m.random.Uint64(), uint64(worker)))
	m.mu.Unlock()
	var again, once []*story
	for n := 0; ctx.Err() == nil; n++ {
		switch luck := random.IntN(10); {
		case luck < 6 || len(once) == 0 || len(again) == 0:
			s := &story{job: pick(random, plainJob, txJob, groupedJob, onlyA, onlyB), key: fmt.Sprintf("%d-%d", worker, n)}
			m.mu.Lock()
			m.stories = append(m.stories, s)
			m.mu.Unlock()
			if n%2 == 0 {
				again = append(again, s)
			} else {
				once = append(once, s)
			}
			m.inStore(ctx, random, s, "enqueue")
		case luck < 8:
			m.inStore(ctx, random, again[max(0, len(again)-1-random.IntN(10))], pick(random, "enqueue", "replace", "push_back"))
		default:
			i := max(0, len(once)-1-random.IntN(30))
			m.inStore(ctx, random, once[i], "cancel")
			once = slices.Delete(once, i, i+1)
		}
		wait(ctx, time.Duration(random.Int64N(int64(2*pace))))
	}
}

// inStore enqueues a key in one of the stores, for an instant that is far enough for moves, or cancels
// it in both.
func (m *mutator) inStore(ctx context.Context, random *rand.Rand, s *story, what string) {
	a := ask{what: what, began: time.Now()}
	a.at = a.began.Add(movable + time.Duration(random.IntN(30_000))*time.Millisecond)
	first := random.IntN(2)
	schemas := []string{twoStores[first], twoStores[1-first]}
	a.known = m.commit(ctx, random, func(tx *sqlx.Tx) error {
		if what == "cancel" {
			var was [2]bool
			for i, schema := range schemas {
				if err := tx.GetContext(ctx, &was[i], "select "+schema+".cancel($1, 'torture', $2)", s.job, s.key); err != nil {
					return err
				}
			}
			a.action = fmt.Sprint(was[0] || was[1])
			return nil
		}
		policy := map[string]string{"enqueue": "keep"}[what]
		if policy == "" {
			policy = what
		}
		return tx.GetContext(ctx, &a.action, "select action from "+schemas[0]+`.enqueue($1, 'torture', $2, check_at => $3, group_key => $5, on_conflict => $4)`, s.job, s.key, a.at, policy, "group "+s.key[len(s.key)-1:])
	})
	a.ended = time.Now()
	m.mu.Lock()
	s.asks = append(s.asks, a)
	m.mu.Unlock()
}

// moves moves all rows to and fro between the stores, until so many moves were killed. A move is started
// again until it ends.
func (t *torture) moves(ctx context.Context, random *rand.Rand) error {
	from, to := twoStores[0], twoStores[1]
	names := slices.Sorted(maps.Keys(movePoints))
	failed := 0
	if err := t.drain(ctx, from, to); err != nil {
		return err
	}
	for killed := 0; ctx.Err() == nil; {
		point, how := "", strike("")
		var after time.Duration
		switch {
		case killed >= t.moved:
		case random.IntN(3) == 0:
			after = time.Duration(20+random.IntN(300)) * time.Millisecond
		default:
			point, how = pick(random, names...), pick(random, killBefore, killAfter)
		}
		out, err := t.move(ctx, from, to, point, how, after)
		exit, _ := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil:
			t.count("moves that ended", 1)
			if from, to, failed = to, from, 0; killed >= t.moved {
				return nil
			}
			if err := t.drain(ctx, from, to); err != nil {
				return err
			}
		case exit != nil && exit.Sys().(syscall.WaitStatus).Signaled():
			killed++
			t.count("moves killed", 1)
			if point != "" {
				t.count("moves killed at "+point, 1)
			}
		default:
			t.count("moves that failed", 1)
			t.log.WarnContext(ctx, "a move failed", "error", err, "output", string(out))
			if failed++; failed > 20 {
				return fmt.Errorf("20 moves have failed, the last one: %w\n%s", err, out)
			}
		}
	}
	return ctx.Err()
}

// drain makes all rows move from one store to the other. Of a store that is not being drained only those move that
// belong to the other one.
func (t *torture) drain(ctx context.Context, from, to string) error {
	if err := t.prescient(ctx, "stores", "drain", to, "--undo"); err != nil {
		return err
	}
	return t.prescient(ctx, "stores", "drain", from)
}

// move runs one process. It is killed at a point, or after a while; never, if neither is given.
// It returns the log of one that failed.
func (t *torture) move(ctx context.Context, from, to, point string, how strike, after time.Duration) ([]byte, error) {
	c := exec.CommandContext(ctx, os.Args[0], "as", "a", "stores", "move", from, to, "--output", "json")
	c.Env, c.SysProcAttr = t.environment(t.mover.url("prescient", "prescient")), attributes()
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	if err := c.Start(); err != nil {
		return nil, err
	}
	kill := func() { _ = c.Process.Kill() }
	if point != "" {
		t.mover.set(func(p *proxy) { p.armed, p.strike, p.kill, p.struck = movePoints[point], how, kill, func() {} })
		defer t.mover.heal()
	}
	if after > 0 {
		defer time.AfterFunc(after, kill).Stop()
	}
	if err := c.Wait(); err != nil {
		return log.Bytes(), err
	}
	var moved struct{ Finished, Rows int }
	if err := json.Unmarshal(out.Bytes(), &moved); err != nil {
		return nil, err
	}
	t.count("rows moved", moved.Rows)
	t.count("rows moved that a killed move had left on their way", moved.Finished)
	return nil, nil
}

// schemas are those of the stores.
func (t *torture) schemas() []string {
	if t.moved == 0 {
		return twoStores[:1]
	}
	return twoStores
}

// eachStore runs a query in each store, whose text names the schema prescient, and appends what it finds.
func eachStore[T any](ctx context.Context, t *torture, query string, args ...any) (all []T, err error) {
	for _, schema := range t.schemas() {
		var some []T
		if err := t.admin.SelectContext(ctx, &some, strings.ReplaceAll(query, "prescient.", schema+"."), args...); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// cancelAll ends all rows that wait, and tells the stories.
func (t *torture) cancelAll(ctx context.Context, m *mutator) error {
	_, err := eachStore[int](ctx, t, `
		select prescient.cancel_entity('torture', entity_key)
		from (select distinct entity_key from prescient.future_job) as f`)
	now := time.Now()
	for _, s := range m.stories {
		s.asks = append(s.asks, ask{what: "cancel", at: now.Add(time.Hour), began: now, ended: now, known: unknown})
	}
	return err
}

// keyed sums up the effects of a key.
type keyed struct {
	Key   string
	N     int
	Early bool // one was before its slot, by the clock of the database
}

// checkMoves notes the invariants that are broken after moves. A row gets another number when it moves,
// so rows are compared by their keys.
func (t *torture) checkMoves(ctx context.Context, m *mutator) error {
	starts, history, rows, err := t.readLedgers(ctx)
	if err != nil {
		return err
	}
	for _, h := range history {
		t.counts["rows "+h.Outcome]++
	}
	t.checkStories(m, rows, starts, t.broken)
	var effects []keyed
	if err := t.admin.SelectContext(ctx, &effects, `
		select key, count(*) as n, bool_or(at < slot) as early from torture.effect group by key`); err != nil {
		return err
	}
	checkMoved(rows, starts, effects, t.broken)
	if err := t.checkRest(ctx); err != nil {
		return err
	}
	moving, err := eachStore[int](ctx, t, `
		select (select count(*) from prescient.transfer_in) + (select count(*) from prescient.transfer_out)`)
	if err != nil {
		return err
	}
	for i, n := range moving {
		if n > 0 {
			t.broken("%d rows or batches are on their way in %s", n, twoStores[i])
		}
	}
	return t.checkLeaks()
}

// checkMoved compares the checks of each key with its starts and its effects.
func checkMoved(rows map[string][]ended, starts []started, effects []keyed, broken func(string, ...any)) {
	begun, had := map[string]int{}, map[string]int{}
	for _, s := range starts {
		begun[s.job+" "+s.key]++
		if s.at.Before(s.slot) {
			broken("%s %s started %v before its slot", s.job, s.key, s.slot.Sub(s.at))
		}
		if len(rows[s.job+" "+s.key]) == 0 {
			broken("%s %s started, and no history has it", s.job, s.key)
		}
	}
	for _, e := range effects {
		had[e.Key] = e.N
		if e.Early {
			broken("a check of %s had its effect before its slot, by the clock of the database", e.Key)
		}
	}
	for key, list := range rows {
		checks := 0
		for _, h := range list {
			checks += h.CheckCount
		}
		job, of, _ := strings.Cut(key, " ")
		if begun[key] < checks {
			broken("%d checks of %s were recorded, and %d started", checks, key, begun[key])
		}
		if (job == txJob || job == groupedJob) && had[of] != checks {
			broken("%d checks of %s were recorded, and had %d effects", checks, key, had[of])
		}
	}
}
