package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/crond"
)

// zoneOfCron is one whose clock changes. Tests shift the clock to such a change.
const zoneOfCron = "Europe/Berlin"

// width is that of a slot. Cron knows no shorter one than a minute.
func (t *torture) width() time.Duration {
	if t.cronned {
		return time.Minute
	}
	return 2 * time.Second
}

// startCron starts Debian's cron with the crontab that install prints, and one line more for the other kind of program.
func (t *torture) startCron(ctx context.Context) (err error) {
	dir := filepath.Join(t.dir, "cron")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "prescient.yaml")
	if err := os.WriteFile(config, nil, 0o644); err != nil {
		return err
	}
	for _, kind := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, kind), t.script(self, kind), 0o755); err != nil {
			return err
		}
	}
	table, err := t.output(ctx, "install", "crontab", "--width", t.width().String(), "--timezone", zoneOfCron,
		"--user", "root", "--binary", filepath.Join(dir, "a"), "--config", config)
	if err != nil {
		return err
	}
	const line = "* * * * *  root  "
	table = strings.Replace(table, line+"a run --catch-up\n", line+"a run --catch-up\n"+line+"b run --catch-up\n", 1)
	t.cron, err = crond.Start(dir, strings.Replace(table, "MAILTO=root", `MAILTO=""`, 1), zoneOfCron)
	if err == nil && t.cron == nil {
		err = errors.New(crond.Missing)
	}
	return err
}

// script is a program of one kind, as the jobs of cron find it.
func (t *torture) script(self, kind string) []byte {
	text := "#!/bin/sh\n"
	for _, v := range t.environment(t.plain.url("prescient", "prescient")) {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "TORTURE_") || strings.HasPrefix(name, "PRESCIENT_") {
			text += fmt.Sprintf("export %s='%s'\n", name, value)
		}
	}
	log := filepath.Join(t.dir, "cron.log")
	return fmt.Appendf([]byte(text), "exec '%s' as %s \"$@\" >> '%s' 2>&1\n", self, kind, log)
}

// byCron waits until ctx ends.
func (t *torture) byCron(ctx context.Context) error {
	<-ctx.Done()
	if !t.cron.Runs() {
		return fmt.Errorf("cron has ended: %s", t.cron.Said)
	}
	return nil
}

// begunSlot is a slot with when it was opened.
type begunSlot struct {
	Slot, Opened time.Time
	Kind         string
}

// checkCron expects that cron has run each slot in its minute. The first one may have begun before cron.
func (t *torture) checkCron(ctx context.Context) error {
	if t.cron == nil {
		return nil
	}
	var slots []begunSlot
	err := t.admin.SelectContext(ctx, &slots, `
		select slot, opened_at as opened, kind
		from prescient.slot_run
		where slot > $1 and slot < $2
		order by slot`, t.began, t.paused.Truncate(t.width()))
	if err != nil {
		return err
	}
	t.counts["slots that cron ran"] = len(slots)
	checkSlots(slots, t.began, t.paused.Truncate(t.width()), t.broken)
	return nil
}

func checkSlots(slots []begunSlot, from, to time.Time, broken func(string, ...any)) {
	at := map[int64]begunSlot{}
	for _, s := range slots {
		at[s.Slot.Unix()] = s
	}
	for slot := from.Truncate(time.Minute).Add(time.Minute); slot.Before(to); slot = slot.Add(time.Minute) {
		switch s, ok := at[slot.Unix()]; {
		case !ok:
			broken("no run has opened slot %s", slot.UTC())
		case s.Kind != "run":
			broken("catch-up ran slot %s", slot.UTC())
		case s.Opened.Sub(slot) > time.Minute:
			broken("slot %s was opened %v after it had begun", slot.UTC(), s.Opened.Sub(slot))
		}
	}
}
