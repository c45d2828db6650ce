package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
)

// Ended is an entry of history.
type Ended struct {
	Slot       time.Time    `json:"slot"`
	Name       string       `json:"name"`
	Outcome    jobs.Outcome `json:"outcome"`
	FinishedAt time.Time    `json:"finished_at"`
	CaughtUp   bool         `json:"caught_up"`
	// ExitStatus of the last check is nil when it was ended by a signal, did not start, or was not checked.
	ExitStatus *int `json:"exit_status"`
	// Duration of the last check.
	Duration duration.Text `json:"duration"`
	Job
	// Path is that of the entry's directory.
	Path string `json:"-"`
}

// record makes an outcome lasting, and gives the executable's lock back. The rename of the executable is the commit:
// everything else is written before it, for nobody to see, and is written again by the next check when this process
// dies before it.
func (r *run) record(ctx context.Context, f *file, v guard.Verdict) error {
	unlock, err := r.lock()
	if err != nil {
		f.release()
		return err
	}
	defer unlock()
	defer f.release()
	if !f.mine() {
		r.count(func() { r.result.Yielded++ })
		r.cfg.Logger.InfoContext(ctx, "taken away or replaced while it was checked", "slot", r.slot, "name", f.name)
		return nil
	}
	job := f.job.after(v, f.ending)
	if v.Outcome != "" {
		err = r.archive(f, v, job)
	} else {
		err = r.move(ctx, f, v.Next, job)
	}
	if err != nil {
		return err
	}
	r.tally(v)
	return nil
}

// after is the job when a verdict is recorded.
func (j Job) after(v guard.Verdict, e *ending) Job {
	if e != nil {
		j.Spent += duration.Text(e.took)
	}
	if v.Error != "" {
		j.LastError = v.Error
	}
	switch {
	case v.Move == guard.MoveRetry || v.Outcome == jobs.Failed:
		j.ErrorCount++
	case v.Move == guard.MoveNext:
		j.CheckCount++
		j.ErrorCount = 0
	case e != nil && v.Outcome != "":
		j.CheckCount++
	}
	return j
}

func (r *run) tally(v guard.Verdict) {
	r.count(func() {
		r.result.Checked++
		switch {
		case v.Move == guard.MoveRetry || v.Outcome == jobs.Failed:
			r.result.Failed++
		case v.Move != "":
			r.result.Rescheduled++
		default:
			r.result.Finished++
		}
	})
}

// archive moves an executable to history, with its output and its result.
func (r *run) archive(f *file, v guard.Verdict, job Job) error {
	entry, err := r.makeEntry(f.name)
	if err != nil {
		return err
	}
	ended := Ended{
		Slot: r.slot, Name: f.name, Outcome: v.Outcome, FinishedAt: r.Now(), CaughtUp: r.moment().CaughtUp, Job: job,
	}
	var text []byte
	if f.ending != nil {
		ended.ExitStatus, ended.Duration, text = f.ending.status, duration.Text(f.ending.took), f.ending.output
	}
	if err := writeFile(filepath.Join(entry, outputFile), text); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(entry, resultFile), ended); err != nil {
		return err
	}
	return r.commit(f, filepath.Join(entry, executableFile))
}

// makeEntry makes the directory of an entry, history/SLOT/NAME. When this slot has seen that name end before, it is
// NAME.2 and so on. One without an executable is what a run left that died: it never became an entry.
func (r *run) makeEntry(name string) (string, error) {
	history := filepath.Join(r.dir, historyDir)
	slot := filepath.Join(history, slotName(r.slot))
	entry := filepath.Join(slot, name)
	for n := 2; ; n++ {
		_, err := os.Lstat(filepath.Join(entry, executableFile))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		entry = filepath.Join(slot, fmt.Sprintf("%s.%d", name, n))
	}
	for _, dir := range []string{history, slot, entry} {
		if err := makeDir(dir); err != nil {
			return "", err
		}
	}
	return entry, nil
}

// move moves an executable to a later slot, or to one after it when its name is taken there.
func (r *run) move(ctx context.Context, f *file, slot time.Time, job Job) error {
	for taken := 0; ; taken++ {
		_, err := os.Lstat(r.path(slot, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			if taken > 0 {
				r.cfg.Logger.WarnContext(ctx, "the name is taken in the slot it asked for: it goes to a later one",
					"name", f.name, "slot", slot, "slots_later", taken)
			}
			break
		}
		if err != nil {
			return err
		}
		slot = r.Grid().Next(slot)
	}
	if err := makeDir(r.slotDir(slot)); err != nil {
		return err
	}
	if err := writeJSON(sidecar(r.path(slot, f.name)), job); err != nil {
		return err
	}
	return r.commit(f, r.path(slot, f.name))
}

// commit moves the executable itself, and removes the sidecar that it leaves behind.
func (r *run) commit(f *file, path string) error {
	if err := os.Rename(f.path, path); err != nil {
		return err
	}
	if err := os.Remove(sidecar(f.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(path)), syncDir(filepath.Dir(f.path)))
}
