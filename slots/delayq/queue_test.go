package delayq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// collector is a handler that keeps its items.
type collector struct {
	mu    sync.Mutex
	items []Item
}

func (c *collector) handle(_ context.Context, item Item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items = append(c.items, item)
	return nil
}

func (c *collector) all() []Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items
}

func TestItemsComeOutOnceAndWholeAndNotBeforeTheirInstant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	now := w.now()
	want := map[string]time.Time{}
	for i, at := range []time.Time{
		now.Add(-24 * time.Hour), time.Unix(1, 0), now, now.Add(1234567 * time.Microsecond), now.Add(2500 * time.Millisecond),
		now.In(time.FixedZone("", 3600)),
	} {
		for _, data := range []string{"", "text", "\x00\xff\xfe", string(every), `{"a": 1,  "a": 2}`, strings.Repeat("\xff", MaxData-10)} {
			data = fmt.Sprint(i) + data
			w.delay(at, data)
			want[data] = at.UTC()
		}
	}
	w.delay(now, "")
	want[""] = now

	var c collector
	end := w.run(func(ctx context.Context, item Item) error {
		if now := w.now(); now.Before(item.At) {
			t.Errorf("%.10q came at %s, before its instant %s", item.Data, now, item.At)
		}
		return c.handle(ctx, item)
	})
	eventually(t, "every item to end", func() bool { return w.ended("done") == len(want) })
	if err := end(); err != nil {
		t.Error(err)
	}
	got, ids := map[string]time.Time{}, map[string]bool{}
	for _, item := range c.all() {
		got[string(item.Data)] = item.At
		ids[item.ID] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(c.all()) != len(want) || len(ids) != len(want) {
		t.Errorf("%d items with %d IDs came out, want %d", len(c.all()), len(ids), len(want))
	}
}

func TestAnItemExistsIfAndOnlyIfItsTransactionCommits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, commit := range []bool{false, true} {
		tx, err := w.db.Beginx()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.queue.DelayContext(t.Context(), tx, w.now(), fmt.Append(nil, "committed ", commit)); err != nil {
			t.Fatal(err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	var c collector
	w.run(c.handle)
	eventually(t, "the item to end", func() bool { return w.ended("done") == 1 })
	if items := c.all(); len(items) != 1 || string(items[0].Data) != "committed true" {
		t.Errorf("items: %+v", items)
	}
	if n := w.count(`select count(*) from mail.future_job`); n != 0 {
		t.Errorf("%d items wait", n)
	}
}

func TestAnItemWhoseHandlerFailsIsHandledAgainWithTheSameIDAndInstant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := w.now().Add(-time.Microsecond)
	w.delay(at, "mail")
	var c collector
	end := w.run(func(ctx context.Context, item Item) error {
		_ = c.handle(ctx, item)
		switch len(c.all()) {
		case 1:
			return errors.New("no connection")
		case 2:
			panic("no memory")
		}
		return nil
	})
	eventually(t, "the item to end", func() bool { return w.ended("done") == 1 })
	if err := end(); err != nil {
		t.Error(err)
	}
	items := c.all()
	if len(items) != 3 {
		t.Fatalf("%d calls, want 3", len(items))
	}
	for _, item := range items {
		if diff := cmp.Diff(Item{ID: items[0].ID, At: at, Data: []byte("mail")}, item); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAnItemThatFailedTooOftenIsInHistoryAndCanBePutBack(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *Config) { c.Retry = -1 })
	w.delay(w.now(), "mail")
	var c collector
	end := w.run(func(context.Context, Item) error { return errors.New("no connection") })
	eventually(t, "the item to be given up", func() bool { return w.ended("failed") == 1 })
	if err := end(); err != nil {
		t.Error(err)
	}
	ended, err := seq.Collect(admin.New(w.queue.client).History(t.Context(), w.db, admin.HistoryFilter{}))
	if err != nil || len(ended) != 1 || ended[0].LastError != "no connection" {
		t.Fatalf("history: %+v, %v", ended, err)
	}
	retried, _, err := admin.New(w.queue.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, time.Time{})
	if err != nil || retried != 1 {
		t.Fatal(retried, err)
	}
	w.run(c.handle)
	eventually(t, "the item to end", func() bool { return w.ended("done") == 1 })
	if items := c.all(); len(items) != 1 || string(items[0].Data) != "mail" || items[0].ID != ended[0].EntityKey {
		t.Errorf("items: %+v", items)
	}
}

func TestWhatBecameDueWhileNobodyRanIsHandledByTheNextRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 3 {
		w.delay(w.now(), "mail")
		due := w.now().Add(time.Second)
		eventually(t, "the slot to pass", func() bool { return w.now().After(due) })
	}
	var c collector
	w.run(c.handle)
	eventually(t, "every item to end", func() bool { return w.ended("done") == 3 })
}

func TestASlowItemHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := make(chan struct{})
	w.delay(w.now(), "slow")
	w.run(func(_ context.Context, item Item) error {
		if string(item.Data) == "slow" {
			<-release
		}
		return nil
	})
	for n := range 3 {
		w.delay(w.now(), "quick")
		eventually(t, "a quick item to end", func() bool { return w.ended("done") == n+1 })
	}
	close(release)
	eventually(t, "the slow item to end", func() bool { return w.ended("done") == 4 })
}

func TestRunLetsWhatIsBeingHandledFinishWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.delay(w.now(), "mail")
	running, release := make(chan struct{}), make(chan struct{})
	end := w.run(func(context.Context, Item) error {
		close(running)
		<-release
		return nil
	})
	<-running
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	if err := end(); err != nil {
		t.Error(err)
	}
	if w.ended("done") != 1 {
		t.Error("what was being handled was not recorded")
	}
}

func TestTwoProcessesShareAndOneThatIsKilledLosesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create table trace (data text, pid int); create table released ()`)
	const items = 40
	delay := func(from int) {
		for n := range items {
			w.delay(w.now(), fmt.Sprint(from+n))
		}
	}
	victim, heir := w.start(), w.start()
	handled := func(p *pgtest.Process) int {
		return w.count(`select count(*) from trace where pid = $1`, p.Process.Pid)
	}
	// One process may get a whole slot, but soon the other gets one, too.
	from := 0
	eventually(t, "both to be at work", func() bool {
		delay(from)
		from += items
		return handled(victim) > 0 && handled(heir) > 0
	})
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	w.db.MustExec(`insert into released default values`)
	eventually(t, "every item to end", func() bool { return w.ended("done") == from })
	if n := w.count(`select count(distinct data) from trace`); n != from {
		t.Errorf("%d items were handled, want %d", n, from)
	}
	heir.Terminate(t, func() {})
}

func TestAQueueThatManyOpenAtOnceForTheFirstTimeIsOpenToAll(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			q, err := Open(t.Context(), db, config())
			if err != nil {
				t.Error(err)
				return
			}
			if err := q.DelayContext(t.Context(), jobs.OwnTx(db), time.Now(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	q, err := Open(t.Context(), db, config())
	if err != nil {
		t.Fatal(err)
	}
	if width := q.client.Grid().Width(); width != time.Second {
		t.Errorf("the width is %s", width)
	}
}

func TestAQueueThatIsOpenButNotUsedYetKeepsItsWidth(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other := config()
	other.Width = time.Minute
	if _, err := Open(t.Context(), w.db, other); err == nil || !strings.Contains(err.Error(), "its slots are 1s wide, not 1m0s") {
		t.Errorf("with another width: %v", err)
	}
	if _, err := Open(t.Context(), w.db, config()); err != nil {
		t.Errorf("with its width: %v", err)
	}
}

func TestASchemaWhoseRowsWaitKeepsItsWidth(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.MustExec("create schema mail")
	if err := pgsql.Migrate(t.Context(), db, "mail"); err != nil {
		t.Fatal(err)
	}
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Schema: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	request := jobs.Request{JobExec: "j", EntityName: "e", EntityKey: "1", CheckAt: time.Now().Add(time.Hour)}
	if _, err := client.Enqueue(t.Context(), jobs.OwnTx(db), request); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), db, config())
	if err == nil || !strings.Contains(err.Error(), "its slots are 15m0s wide, not 1s") {
		t.Errorf("a queue of a schema with a row: %v", err)
	}
}

func TestWhatCannotBeOpenedIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.delay(w.now(), "in use")
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no name":           {func(c *Config) { c.Schema = "" }, "it is the name of the queue"},
		"the application's": {func(c *Config) { c.Schema = "prescient" }, "for the jobs of the application"},
		"a bad name":        {func(c *Config) { c.Schema = "Mail" }, "must match"},
		"no width":          {func(c *Config) { c.Width = 7 * time.Second }, "divides 24 h"},
		"a lease too short": {func(c *Config) { c.Lease = time.Millisecond }, "at least 1s"},
		"less than none":    {func(c *Config) { c.Workers = -1 }, "must not be negative"},
		"another width": {
			func(c *Config) { c.Width = time.Minute },
			"open queue mail: its slots are 1s wide, not 1m0s: correct delayq.Config, or change it with: prescient --schema mail slots set-width 1m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			test.change(&cfg)
			if _, err := Open(t.Context(), w.db, cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestAnItemThatCannotBeKeptIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, test := range map[string]struct {
		at   time.Time
		size int
		want string
	}{
		"no instant":     {time.Time{}, 1, "the instant is not set"},
		"before 1970":    {time.Unix(-1, 0), 1, "must be from 1970-01-01"},
		"too far ahead":  {w.now().AddDate(6, 0, 0), 1, "within the horizon"},
		"too much data":  {w.now(), MaxData + 1, "the data is 65537 bytes, and 65536 are the most"},
		"as much as fit": {w.now(), MaxData, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.queue.DelayContext(t.Context(), jobs.OwnTx(w.db), test.at, make([]byte, test.size))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func FuzzWhatIsPackedComesOutAsItWas(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add([]byte("\x00\xff<&>"), int64(1772366400123456789))
	f.Fuzz(func(t *testing.T, data []byte, nanos int64) {
		at := time.Unix(0, nanos)
		row, err := pack("id", at, data)
		if err != nil {
			t.Skip()
		}
		if len(row.Payload) > maxPayload {
			t.Fatalf("%d bytes of data make a payload of %d", len(data), len(row.Payload))
		}
		item, err := unpack(jobs.FutureJob{EntityKey: row.EntityKey, Payload: row.Payload})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Item{ID: "id", At: grid.RoundMicro(at), Data: append([]byte{}, data...)}, item); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzAnyPayloadIsAnItemOrAnError(f *testing.F) {
	for _, payload := range []string{``, `null`, `{}`, `[]`, `{"at":"2026-03-01T12:00:00Z","data":""}`, `{"at":"2026-03-01T12:00:00+25:00","data":"!"}`, `{"at":1,"data":"eA=="}`} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		item, err := unpack(jobs.FutureJob{EntityKey: "id", Payload: payload})
		if err != nil {
			return
		}
		row, err := pack(item.ID, item.At, item.Data)
		if err != nil {
			t.Fatalf("%s came out as an item that does not go in: %v", payload, err)
		}
		again, err := unpack(jobs.FutureJob{EntityKey: row.EntityKey, Payload: row.Payload})
		if err != nil || !again.At.Equal(grid.RoundMicro(item.At)) || string(again.Data) != string(item.Data) {
			t.Errorf("%s: %+v, then %+v, %v", payload, item, again, err)
		}
	})
}
