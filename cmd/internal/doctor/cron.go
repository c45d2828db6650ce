package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// Crontab is a crontab file that runs slots.
type Crontab struct {
	Path string
	// Env are the variables that it sets, as NAME=value. If a line has --config, PRESCIENT_CONFIG
	// is its value.
	Env []string
	// Runs are the times of the lines that run slots: five fields, or a name such as @hourly.
	Runs []string
	// Users are the users that run them. Empty for the crontab of the user who runs doctor.
	Users []string
}

// Crontabs returns the crontabs of the system and of the user with a line that calls the binary's
// run. It skips files that it cannot read.
func Crontabs(ctx context.Context, binary string) (list []Crontab) {
	add := func(path string, text []byte, users bool) {
		if c := readCrontab(path, string(text), binary, users); len(c.Runs) > 0 {
			list = append(list, c)
		}
	}
	files, _ := filepath.Glob("/etc/cron.d/*") // the pattern is valid
	for _, path := range append([]string{"/etc/crontab"}, files...) {
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
	for line := range strings.Lines(text) {
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
			c.Runs = append(c.Runs, m[1])
			if m := config.FindStringSubmatch(command); m != nil {
				c.Env = append(c.Env, "PRESCIENT_CONFIG="+m[1])
			}
		}
	}
	return c
}

// Width compares how often crontabs run slots with the width.
func Width(list []Crontab, width time.Duration, binary string) []Finding {
	if len(list) == 0 {
		return nil
	}
	day := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC) // any day
	ran := map[time.Time]bool{}
	var paths []string
	for _, c := range list {
		paths = append(paths, c.Path)
		for _, line := range c.Runs {
			for at := range instants(line, day) {
				ran[at] = true
			}
		}
	}
	where, want := strings.Join(paths, " and "), int(24*time.Hour/width)
	found := []Finding{{Name: "crontab", Severity: Action, Do: binary + " install crontab  -- prints the lines that do"}}
	switch n := len(ran); {
	case width < time.Minute:
		found[0].What = fmt.Sprintf("slots are %s apart, which cron cannot follow", duration.Format(width))
		found[0].Do = binary + " daemon"
	case n < want:
		found[0].What = fmt.Sprintf("%s runs slots %d times a day, and there are %d: "+
			"the other slots are missed until a catch-up", where, n, want)
	case n > want:
		found[0].Severity = Note
		found[0].What = fmt.Sprintf("%s runs slots %d times a day, and there are %d: the other runs find nothing to do",
			where, n, want)
	default:
		return nil
	}
	return found
}

// instants returns the times of a crontab line in one day, in UTC. A line that the package cannot
// read has none.
func instants(line string, day time.Time) iter.Seq[time.Time] {
	c, err := crontab.Parse(line, "UTC", time.Time{})
	if err != nil {
		return func(func(time.Time) bool) {}
	}
	return c.Between(day.Add(-time.Second), day.Add(24*time.Hour-time.Second))
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
				f := action(fmt.Sprintf("%s runs slots as user %s, which cannot work: %s", c.Path, name, bad.What), "%s", bad.Do)
				f.Name = "crontab"
				found = append(found, f)
			}
		}
	}
	return found
}

// CronSees returns the settings that the binary has if cron starts it: in the home directory, with
// the crontab's variables and none of this shell's.
func CronSees(ctx context.Context, env []string) (list []config.Entry, err error) {
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
	out, err := show.Output()
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("show the settings as cron sees them: %w", err)
	}
	return list, nil
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
			differ = append(differ, fmt.Sprintf("%s (%s)", e.Key, e.Origin))
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
