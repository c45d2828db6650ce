package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/install"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/health"
)

// Crontab is a crontab file that runs slots.
type Crontab struct {
	Path string
	// Env are the variables that it sets, as NAME=value. If a line has --config, PRESCIENT_CONFIG
	// is its value.
	Env []string
	// Runs are the lines that run slots.
	Runs []Line
	// Users are the users that run them. Empty for the crontab of the user who runs doctor.
	Users []string
}

// Line says when a line of a crontab starts its command.
type Line struct {
	Times string // five fields, or a name such as @hourly
	Zone  string // by CRON_TZ above; empty: the machine's
}

// System is the folder of the system's crontabs. Tests name another one, because those of their machine are not theirs.
var System = "/etc"

// Crontabs returns the crontabs of the system and of the user with a line that calls the binary's
// run. It skips files that it cannot read.
func Crontabs(ctx context.Context, binary string) (list []Crontab) {
	add := func(path string, text []byte, users bool) {
		if c := readCrontab(path, string(text), binary, users); len(c.Runs) > 0 {
			list = append(list, c)
		}
	}
	files, _ := filepath.Glob(filepath.Join(System, "cron.d", "*")) // the pattern is valid
	for _, path := range append([]string{filepath.Join(System, "crontab")}, files...) {
		if text, err := os.ReadFile(path); err == nil {
			add(path, text, true)
		}
	}
	if text, err := exec.CommandContext(ctx, "crontab", "-l").Output(); err == nil {
		add("crontab -l", text, false)
	}
	return list
}

// readCrontab reads the variables and times of a crontab. users: a line names its user before its
// command.
func readCrontab(path, text, binary string, users bool) Crontab {
	c := Crontab{Path: path}
	assignment := regexp.MustCompile(`^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$`)
	entry := regexp.MustCompile(`^\s*(@\w+|(?:[\d*]\S*\s+){3}\S+\s+\S+)\s+(.*)$`)
	user := regexp.MustCompile(`^\S+\s+`)
	// The binary, options, then run, before another command begins.
	runs := regexp.MustCompile(`(^|[\s/;&|(])` + regexp.QuoteMeta(binary) + `(\s+-[^;&|]*)?\s+run(\s|;|$)`)
	config := regexp.MustCompile(`\srun\s[^;&|]*--config[= ](\S+)`)
	zone := ""
	for line := range strings.Lines(text) {
		if name, sets := install.CronTZ(line); sets {
			zone = name
		}
		if m := assignment.FindStringSubmatch(line); m != nil {
			c.Env = append(c.Env, m[1]+"="+strings.Trim(m[2], `"'`))
			continue
		}
		m := entry.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		command, runner := m[2], ""
		if users {
			runner = strings.TrimSpace(user.FindString(command))
			command = user.ReplaceAllString(command, "")
		}
		if runs.MatchString(command) {
			if runner != "" && !slices.Contains(c.Users, runner) {
				c.Users = append(c.Users, runner)
			}
			c.Runs = append(c.Runs, Line{m[1], zone})
			if m := config.FindStringSubmatch(command); m != nil {
				c.Env = append(c.Env, "PRESCIENT_CONFIG="+m[1])
			}
		}
	}
	return c
}

// Width compares the times at which crontabs run slots with the slots. local is the zone of the
// machine.
func Width(list []Crontab, width time.Duration, local *time.Location, binary string) []Finding {
	if len(list) == 0 {
		return nil
	}
	f := ToDo("crontab", "", binary+" install crontab  -- prints the lines that do")
	if width < time.Minute {
		f.What, f.Do = fmt.Sprintf("slots are %s apart, which cron cannot follow", duration.Format(width)), binary+" daemon"
		return []Finding{f}
	}
	var worst runs
	for _, monday := range weeks {
		for day := range 7 {
			if r := runsOf(list, monday.AddDate(0, 0, day), width, local); r.worse(worst) {
				worst = r
			}
		}
	}
	where, slots := paths(list), int(24*time.Hour/width)
	switch day := worst.day.Weekday(); {
	case worst.missed > 0:
		f.What = fmt.Sprintf("%s starts no run in %d of the %d slots of a %s, such as the slot of %s UTC: "+
			"they are missed until a catch-up", where, worst.missed, slots, day, worst.example.Format("15:04"))
	case worst.late > health.Prompt:
		f.What = fmt.Sprintf("%s starts runs up to %s after the beginning of their slots, such as that of %s UTC on a %s",
			where, duration.Format(worst.late), worst.example.Format("15:04"), day)
	case worst.started > slots:
		f.Severity = Note
		f.What = fmt.Sprintf("%s starts %d runs on a %s, which has %d slots: the other runs find nothing to do",
			where, worst.started, day, slots)
	default:
		return nil
	}
	return []Finding{f}
}

// weeks are the Mondays of two weeks that represent a year: no clocks change in them, and zones with
// summer time have it in one of them.
var weeks = []time.Time{
	time.Date(2026, time.February, 2, 0, 0, 0, 0, time.UTC),
	time.Date(2026, time.August, 3, 0, 0, 0, 0, time.UTC),
}

// runs sums up how the commands of crontabs meet the slots of one day of UTC.
type runs struct {
	day     time.Time
	started int           // at different times
	missed  int           // slots in which no run starts
	late    time.Duration // the longest time from the beginning of a slot to its run
	example time.Time     // a slot that is missed; else that with the longest time
}

func (r runs) worse(than runs) bool {
	return cmp.Or(cmp.Compare(r.missed, than.missed), cmp.Compare(r.late, than.late),
		cmp.Compare(r.started, than.started)) > 0
}

func runsOf(list []Crontab, day time.Time, width time.Duration, local *time.Location) runs {
	started := map[time.Time]bool{}
	for _, c := range list {
		for _, line := range c.Runs {
			for at := range line.instants(day, local) {
				started[at] = true
			}
		}
	}
	r := runs{day: day, started: len(started)}
	all := slices.SortedFunc(maps.Keys(started), time.Time.Compare)
	for slot := day; slot.Before(day.Add(24 * time.Hour)); slot = slot.Add(width) {
		i, _ := slices.BinarySearchFunc(all, slot, time.Time.Compare)
		switch {
		case i == len(all) || !all[i].Before(slot.Add(width)):
			if r.missed++; r.missed == 1 {
				r.example = slot
			}
		case r.missed == 0 && all[i].Sub(slot) > r.late:
			r.late, r.example = all[i].Sub(slot), slot
		}
	}
	return r
}

// instants returns the times of a line on a day of UTC. A line that the package cannot read has none.
func (l Line) instants(day time.Time, local *time.Location) iter.Seq[time.Time] {
	zone := local
	if named, err := time.LoadLocation(l.Zone); l.Zone != "" && err == nil {
		zone = named
	}
	c, err := crontab.Parse(l.Times, "UTC", time.Time{}) // of the zone's clock, which does not change that week
	if err != nil {
		return func(func(time.Time) bool) {}
	}
	_, seconds := day.In(zone).Zone()
	offset := time.Duration(seconds) * time.Second
	from := day.Add(offset - time.Second)
	return func(yield func(time.Time) bool) {
		for at := range c.Between(from, from.Add(24*time.Hour)) {
			if !yield(at.Add(-offset)) {
				return
			}
		}
	}
}

// paths names crontabs.
func paths(list []Crontab) string {
	return strings.Join(seq.Map(list, func(c Crontab) string { return c.Path }), " and ")
}

// Users finds the users of crontabs who do not exist, and those who cannot read the configuration
// file: their runs fail before they can log anything but that. usual is the file that a crontab
// means if it names none.
func Users(list []Crontab, usual string) (found []Finding) {
	for _, c := range list {
		file := usual
		if files := named([]Crontab{c}); len(files) > 0 {
			file = files[len(files)-1]
		}
		for _, name := range c.Users {
			if bad := CheckAccess(name, file); bad != nil {
				what := fmt.Sprintf("%s runs slots as user %s, which cannot work: %s", c.Path, name, bad.What)
				found = append(found, ToDo("crontab", what, bad.Do))
			}
		}
	}
	return found
}

// CronSees returns the settings that the binary has if cron starts it: in the home directory, with
// the crontab's variables and none of this shell's.
func CronSees(ctx context.Context, env []string) ([]config.Entry, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	show := exec.CommandContext(ctx, self, "config", "show", "--output", "json")
	show.Dir = home
	show.Env = append([]string{"HOME=" + home, "LOGNAME=" + os.Getenv("LOGNAME"), "SHELL=/bin/sh", "PATH=/usr/bin:/bin"},
		env...)
	var shown struct{ Items []config.Entry }
	out, err := show.Output()
	if err == nil {
		err = json.Unmarshal(out, &shown)
	}
	if err != nil {
		return nil, fmt.Errorf("show the settings as cron sees them: %w", err)
	}
	return shown.Items, nil
}

// Blind returns the finding for a CronSees that failed because the binary failed. It is a note:
// cron may run as another user, for whom it works.
func Blind(err error) []Finding {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return nil
	}
	f := note("what cron would see cannot be read: "+strings.TrimSpace(string(exit.Stderr)),
		"correct the file, or name it in the crontab: PRESCIENT_CONFIG=/path/to/prescient.yaml")
	f.Name = "environment"
	return []Finding{f}
}

// Environment compares the settings of this shell with those that cron has. If no crontab runs
// slots, the settings may have another purpose. binary is the command with its flags.
func Environment(here, cron []config.Entry, crontabs []Crontab, binary string) []Finding {
	there := map[string]string{}
	for _, e := range cron {
		there[e.Key] = e.Value
	}
	var differ, origins []string
	for _, e := range here {
		if value, known := there[e.Key]; value != e.Value && (known || e.Origin != "default") { // its section covers a job
			name := fmt.Sprintf("%s (%s)", entryOf(e.Key), e.Origin)
			if !slices.Contains(differ, name) {
				differ = append(differ, name)
			}
			origins = append(origins, e.Origin)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	mends := "put it into /etc/prescient/prescient.yaml, or name another file in the crontab: " +
		"PRESCIENT_CONFIG=/path/to/prescient.yaml"
	if files := named(crontabs); len(files) > 0 { // a command reads only one file
		mends = "put it into " + strings.Join(files, " and ") + ", which the crontab names"
	}
	f := note("no crontab here runs slots. Such a crontab would not see these settings: "+strings.Join(differ, ", "),
		"if cron is to run slots, %s", mends)
	origins = slices.Compact(origins)
	if file, ok := strings.CutPrefix(origins[0], "file "); ok && len(origins) == 1 {
		f = note("no crontab here runs slots. Such a crontab sees the settings of "+file+" only if it names the file",
			"%s install crontab  -- prints the lines, which name the file, if cron is to run slots", binary)
	}
	if len(crontabs) > 0 {
		f = action("cron runs slots here without these settings of this shell: "+strings.Join(differ, ", "), "%s", mends)
	}
	f.Name = "environment"
	return []Finding{f}
}

// entryOf returns the entry of a list that a setting belongs to, as receivers[ops] of receivers[ops].url, or else the
// setting.
func entryOf(key string) string {
	if end := strings.LastIndex(key, "]."); end > 0 {
		return key[:end+1]
	}
	return key
}

// named returns the configuration files that crontabs name, without duplicates.
func named(crontabs []Crontab) (files []string) {
	for _, c := range crontabs {
		for _, variable := range c.Env {
			if file, ok := strings.CutPrefix(variable, "PRESCIENT_CONFIG="); ok && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}
