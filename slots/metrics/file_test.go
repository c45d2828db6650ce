package metrics_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/metrics"
)

// write ends the process with a file of its metrics, and returns the content.
func (w *world) write(path string, others ...string) ([]byte, samples) {
	w.t.Helper()
	w.metrics.Read(w.t.Context())
	if err := w.metrics.WriteFile(path, others...); err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	_, got := parse(w.t, text)
	return text, got
}

func TestAFileGrowsFromRunToRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := filepath.Join(t.TempDir(), "prescient.prom")
	w.enqueue("ok", slot(1), 2)
	w.run(slot(1))
	w.write(path)

	w.process()
	w.metrics.Ended(slots.KindCatchUp, nil) // without any slot
	_, caught := w.write(path)

	w.enqueue("ok", slot(2), 3)
	w.enqueue("fail", slot(2), 1)
	w.process()
	w.now = slot(3) // slot 2 is one slot late
	if _, err := w.runner().Run(t.Context(), slot(2)); err != nil {
		t.Fatal(err)
	}
	text, got := w.write(path)
	got.wants(t, samples{
		`prescient_checks_total{job_exec="ok",outcome="done"}`:          5,
		`prescient_checks_total{job_exec="fail",outcome="failed"}`:      1,
		`prescient_check_lateness_seconds_count{job_exec="ok"}`:         5,
		`prescient_check_lateness_seconds_sum{job_exec="ok"}`:           3 * 900,
		`prescient_runs_total{kind="run",result="done"}`:                2,
		`prescient_slot_timestamp_seconds`:                              float64(slot(3).Unix()),
		`prescient_last_run_success_timestamp_seconds{kind="catch_up"}`: caught[`prescient_last_run_success_timestamp_seconds{kind="catch_up"}`],
	})
	if !strings.Contains(string(text), `prescient_check_lateness_seconds_bucket{job_exec="ok",le="300"} 2`+"\n") ||
		!strings.Contains(string(text), `prescient_check_lateness_seconds_bucket{job_exec="ok",le="900"} 5`+"\n") {
		t.Errorf("the buckets do not add up:\n%s", text)
	}
	promtool(t, text, "check", "metrics")
}

func TestAFileKeepsWhatItSaysOfOtherStores(t *testing.T) {
	t.Parallel()
	path, listed := filepath.Join(t.TempDir(), "prescient.prom"), []string{"shop", "tenants/", "billing"}
	for _, store := range []string{"shop", "tenants/tenant_a", "shop"} {
		w := setup(t)
		w.metrics = metrics.NewStore(store)
		w.metrics.Watch(metrics.Source{DB: w.db, Registry: w.registry})
		w.write(path, listed...)
	}
	w := setup(t)
	w.metrics = metrics.NewStore("billing") // its database does not answer
	text, got := w.write(path, listed...)
	got.wants(t, samples{
		`prescient_database_up{store="shop"}`:                    1,
		`prescient_slot_width_seconds{store="shop"}`:             900,
		`prescient_slot_width_seconds{store="tenants/tenant_a"}`: 900,
		`prescient_database_up{store="billing"}`:                 0,
	})
	if value, is := got[`prescient_slot_width_seconds{store="billing"}`]; is {
		t.Errorf("the width is %v, and nobody says so", value)
	}
	promtool(t, text, "check", "metrics")
}

// A series that no process writes would stay as it is, and alert for ever.
func TestAFileDropsAStoreThatIsNoLongerListed(t *testing.T) {
	t.Parallel()
	path, kinds := filepath.Join(t.TempDir(), "prescient.prom"), []slots.Kind{slots.KindRun, slots.KindCatchUp}
	end := func(store string, others ...string) (stores []string) {
		t.Helper()
		w := &world{t: t, metrics: metrics.NewStore(store)}
		for _, kind := range kinds {
			w.metrics.Ended(kind, nil)
		}
		text, _ := w.write(path, others...)
		for _, name := range []string{"", "south", "tenants/tenant_a", "tenants/tenant_b", "tenants", "shop"} {
			labels, found := `,store="`+name+`"`, 0
			if name == "" {
				labels = ""
			}
			for _, kind := range kinds {
				found += strings.Count(string(text), `_success_timestamp_seconds{kind="`+string(kind)+`"`+labels+`} `)
			}
			if found > 0 {
				stores = append(stores, name)
			}
		}
		return stores
	}
	for _, step := range []struct {
		store  string
		others []string
		want   []string
	}{
		{"", nil, []string{""}},
		{"south", []string{"south", "tenants/"}, []string{"south"}}, // the settings have begun to list stores
		{"tenants/tenant_a", []string{"south", "tenants/"}, []string{"south", "tenants/tenant_a"}},
		{"tenants/tenant_b", []string{"south", "tenants/"}, []string{"south", "tenants/tenant_a", "tenants/tenant_b"}},
		{"shop", []string{"tenants/", "shop"}, []string{"tenants/tenant_a", "tenants/tenant_b", "shop"}},
		{"tenants/tenant_a", []string{"tenants/tenant_a", "shop"}, []string{"tenants/tenant_a", "shop"}},
		{"shop", []string{"tenants", "shop"}, []string{"shop"}},
		{"tenants", []string{"tenants", "shop"}, []string{"tenants", "shop"}},
		{"", nil, []string{""}}, // they list none now
	} {
		if got := end(step.store, step.others...); !slices.Equal(got, step.want) {
			t.Errorf("after a run of %q beside %q the file tells of %q, want %q", step.store, step.others, got, step.want)
		}
	}
}

func TestARunThatFailedKeepsTheTimeOfTheLastGoodOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := filepath.Join(t.TempDir(), "prescient.prom")
	w.run(slot(1))
	_, good := w.write(path)
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	w.process()
	w.metrics.Ended(slots.KindRun, errRefused)
	_, got := w.write(path)
	const last, success = `prescient_last_run_timestamp_seconds{kind="run"}`, `prescient_last_run_success_timestamp_seconds{kind="run"}`
	if got[success] != good[success] || got[last] <= good[last] {
		t.Errorf("%v, then %v", good, got)
	}
	got.wants(t, samples{`prescient_database_up`: 0})
	if _, there := got[`prescient_slot_lag_seconds`]; there {
		t.Error("the lag of an earlier run is given out as that of now")
	}
}

func TestWritersOfAFileLoseNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prescient.prom")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			m := metrics.New()
			m.Recorded([]slots.Recorded{{JobExec: "ok", Rows: 3, Outcome: "done", Checked: true}})
			if err := m.WriteFile(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, got := parse(t, text)
	got.wants(t, samples{`prescient_checks_total{job_exec="ok",outcome="done"}`: 60})
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("node_exporter cannot read it: %v, %v", info.Mode(), err)
	}
}

func TestAFileOfAnotherProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"root:x:0:0:root:/root:/bin/bash\n":       "does not hold metrics",
		"# TYPE backup_age gauge\nbackup_age 3\n": "holds backup_age",
	} {
		path := filepath.Join(t.TempDir(), "other.prom")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := metrics.New().WriteFile(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != content {
			t.Errorf("%s, %v", now, err)
		}
	}
	if err := metrics.New().WriteFile(filepath.Join(t.TempDir(), "nowhere", "x.prom")); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

func TestAWriterDoesNotWaitForeverForAStuckProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prescient.prom")
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := metrics.New().WriteFile(path); err == nil || !strings.Contains(err.Error(), "another process has locked the directory") {
		t.Errorf("error %v", err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	if err := metrics.New().WriteFile(path); err != nil {
		t.Error(err)
	}
}
