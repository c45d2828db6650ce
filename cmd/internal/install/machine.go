package install

import (
	"path"
	"slices"
	"strings"
	"time"
)

// crontab has the data of crontab.tmpl.
type crontab struct {
	Setup
	Clock, Path, Schedule, Command, Flags string
	Begin, End                            string // the marks of a block in a user's crontab
	Often                                 string // why runs also start between slots; empty: they do not
}

// Crontab returns the lines of a crontab that run the binary at each slot by cron's clock, also
// across summer time. With a User they are a whole file of /etc/cron.d. Without one they are a
// block for a user's crontab. The block sets no variable, because cron would apply that to the
// lines below, too. It returns ErrWidth if slots do not all begin at a full minute.
func Crontab(s Setup) (File, error) {
	if err := s.check(); err != nil {
		return File{}, err
	}
	if s.Zone == nil {
		s.Zone = time.UTC
	}
	zone, clock := offsets(s.Zone, s.Now), s.Zone.String()
	if s.Above != nil && s.Above.String() != clock {
		zone, clock = append(zone, offsets(s.Above, s.Now)...), clock+", or on the "+s.Above.String()+" of CRON_TZ above"
	}
	at, err := newSchedule(s.Width, zone)
	if err != nil {
		return File{}, err
	}
	c := crontab{Setup: s, Clock: clock, Schedule: at.crontab(), Command: path.Base(s.Binary), Flags: s.Only()}
	dirs := []string{"/usr/bin", "/bin"}
	if dir := path.Dir(s.Binary); !slices.Contains(dirs, dir) {
		dirs = slices.Insert(dirs, 0, dir)
	}
	c.Path = strings.Join(dirs, ":")
	if s.User == "" {
		mark := s.mark()
		c.Command, c.Flags, c.Begin, c.End = s.Binary, s.flags(), beginMark+mark, endMark+mark
	}
	if at.starts > int(24*time.Hour/s.Width) {
		c.Often = "Cron cannot count " + s.Slots() + ": in between, a run finds its slot done and does nothing."
		switch {
		case s.Width%time.Hour != 0:
		case s.Above != nil && s.Above.String() != s.Zone.String():
			c.Often = "Some crons obey CRON_TZ: in between, a run finds its slot done and does nothing."
		case len(zone) > 1:
			c.Often = "The slots of a day are at other hours in summer: in between, a run finds its slot done and does nothing."
		}
	}
	text, err := render("crontab.tmpl", c)
	return File{s.Name, text}, err
}

// Systemd returns a timer with the services that it starts, or the service of the daemon. Without
// the daemon it returns ErrWidth if slots do not all begin at a full minute.
func Systemd(s Setup) ([]File, error) {
	if err := s.checkName(); err != nil {
		return nil, err
	}
	names := []string{"daemon.service"}
	data := struct {
		Setup
		Schedule string
	}{Setup: s}
	if !s.Daemon {
		at, err := newSchedule(s.Width, []time.Duration{0})
		if err != nil {
			return nil, err
		}
		data.Schedule = at.calendar()
		names = []string{"run.timer", "run.service", "check.service"}
	}
	var files []File
	for _, name := range names {
		if name == "check.service" {
			data.Writes = nil // it only reads
		}
		text, err := render(name+".tmpl", data)
		if err != nil {
			return nil, err
		}
		// A daemon's name has a suffix, because NAME.service may be the application's.
		files = append(files, File{s.Name + "-" + name, text})
	}
	return files, nil
}
