package install

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	cron "github.com/netresearch/go-cron"
)

// widths are all that are whole minutes.
func widths() (list []time.Duration) {
	for minutes := 1; minutes <= 24*60; minutes++ {
		if 24*60%minutes == 0 {
			list = append(list, time.Duration(minutes)*time.Minute)
		}
	}
	return list
}

var winter = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func setup() Setup {
	return Setup{
		Name: "orders", Binary: "/usr/bin/true", Config: "/etc/prescient/prescient.yaml", Width: 15 * time.Minute, WidthFrom: "--width",
		Now: winter, Image: "registry.example.com/orders:1", Secret: "orders", Replicas: 2, Shards: 1, Ports: []int{5432},
	}
}

// Two years of these zones have summer time of an hour and of half an hour, and offsets of quarters of an hour.
func TestCronStartsARunAtEverySlotInEveryZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham", "America/St_Johns",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		moments := []time.Time{winter}
		for at := winter.In(zone); len(moments) < 5; at = moments[len(moments)-1] {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			moments = append(moments, end)
		}
		for _, width := range widths() {
			at, err := newSchedule(width, offsets(zone, winter))
			if err != nil {
				t.Fatal(err)
			}
			schedule, err := cron.ParseStandard("CRON_TZ=" + name + " " + at.crontab())
			if err != nil {
				t.Fatal(name, width, err)
			}
			for _, moment := range moments {
				for slot := moment.Add(-25 * time.Hour).Truncate(width); slot.Before(moment.Add(25 * time.Hour)); slot = slot.Add(width) {
					if next := schedule.Next(slot.Add(-time.Second)); !next.Equal(slot) {
						t.Fatalf("%s, %s: %s starts nothing at %s, but at %s", name, width, at.crontab(), slot.In(zone), next)
					}
				}
			}
		}
	}
}

func TestCronStartsNoRunBetweenSlotsWhereItCanCountThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width      time.Duration
		zone, want string
	}{
		{time.Minute, "UTC", "* * * * *"},
		{15 * time.Minute, "UTC", "*/15 * * * *"},
		{15 * time.Minute, "Europe/Berlin", "*/15 * * * *"},
		{30 * time.Minute, "Asia/Kathmandu", "15,45 * * * *"},
		{time.Hour, "Asia/Kolkata", "30 * * * *"},
		{6 * time.Hour, "UTC", "0 */6 * * *"},
		{6 * time.Hour, "Asia/Tokyo", "0 3,9,15,21 * * *"},
		{24 * time.Hour, "UTC", "0 0 * * *"},
		// Here it cannot.
		{24 * time.Hour, "Europe/Berlin", "0 * * * *"},
		{time.Hour, "Australia/Lord_Howe", "*/30 * * * *"},
		{8 * time.Minute, "UTC", "*/4 * * * *"},
		{90 * time.Minute, "UTC", "*/30 * * * *"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := newSchedule(c.width, offsets(zone, winter))
		if err != nil || at.crontab() != c.want {
			t.Errorf("%s in %s: %s, %v, want %s", c.width, c.zone, at.crontab(), err, c.want)
		}
	}
}

func TestTheChartKnowsTheSchedulesOfCronInUTC(t *testing.T) {
	t.Parallel()
	helm, err := likeHelm()
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range widths() {
		at, err := newSchedule(width, []time.Duration{0})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		data := map[string]any{"Values": map[string]any{"width": int(width / time.Minute)}}
		if err := helm.ExecuteTemplate(&b, "prescient.schedule", data); err != nil || b.String() != at.crontab() {
			t.Errorf("%s: the chart has %q, %v, and cron %q", width, b.String(), err, at.crontab())
		}
	}
}

func TestSlotsThatDoNotBeginWithAMinuteAreTheDaemons(t *testing.T) {
	t.Parallel()
	for _, width := range []time.Duration{time.Second, 10 * time.Second, 90 * time.Second} {
		s := setup()
		s.Width = width
		_, crontab := Crontab(s)
		_, units := Systemd(s)
		_, manifests := Kubernetes(s)
		_, chart := Chart(s)
		for i, err := range []error{crontab, units, manifests, chart} {
			if !errors.Is(err, ErrWidth) {
				t.Errorf("%d: slots of %s: %v", i, width, err)
			}
		}
		s.Daemon = true
		_, units = Systemd(s)
		_, manifests = Kubernetes(s)
		if units != nil || manifests != nil {
			t.Error(units, manifests)
		}
	}
}

func TestNothingIsWrittenThatWouldHaveToBeQuoted(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Setup){
		func(s *Setup) { s.Binary = "/opt/my orders" },
		func(s *Setup) { s.Config = "/etc/a\nb.yaml" },
		func(s *Setup) { s.User = "100%" },
		func(s *Setup) { s.Name = "a'b" },
		func(s *Setup) { s.Image = "{{ x }}" },
		func(s *Setup) { s.Writes = []string{"/var/lib/my metrics"} },
	} {
		s := setup()
		change(&s)
		_, crontab := Crontab(s)
		_, units := Systemd(s)
		_, manifests := Kubernetes(s)
		_, chart := Chart(s)
		if crontab == nil || units == nil || manifests == nil || chart == nil {
			t.Errorf("%+v: %v, %v, %v, %v", s, crontab, units, manifests, chart)
		}
	}
	for _, name := range []string{"", "Orders", "a_b", "-a", strings.Repeat("a", 41)} {
		s := setup()
		s.Name = name
		if _, err := Systemd(s); err == nil {
			t.Errorf("the name %q is accepted", name)
		}
	}
}

// analyze runs systemd-analyze, which needs no systemd that runs.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("systemd-analyze", args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("this needs systemd-analyze: apt-get install systemd")
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

func TestTheUnitsAreRightAndTheirExposureIsBelowTwo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all, services []string
	for i, daemon := range []bool{false, true, false, true} {
		s := setup()
		s.Daemon = daemon
		if i > 1 {
			s.Name, s.Writes = "writing", []string{"/var/lib/metrics", "/var/spool/orders"}
		}
		files, err := Systemd(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			path := filepath.Join(dir, file.Path)
			if err := os.WriteFile(path, []byte(file.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			all = append(all, path)
			if filepath.Ext(path) == ".service" {
				services = append(services, path)
			}
		}
	}
	if out := analyze(t, append([]string{"verify", "--man=no"}, all...)...); out != "" {
		t.Error(out)
	}
	for _, service := range services {
		analyze(t, "security", "--offline=yes", "--threshold=20", service)
	}
	if len(services) != 6 {
		t.Errorf("services: %q", services)
	}
}

var elapse = regexp.MustCompile(`(?m)(?:Next elapse|Iter\. #\d+): \w+ (\S+ \S+) UTC$`)

func TestTheTimerStartsARunAtEverySlot(t *testing.T) {
	t.Parallel()
	for _, width := range widths() {
		at, err := newSchedule(width, []time.Duration{0})
		if err != nil {
			t.Fatal(err)
		}
		out := analyze(t, "calendar", "--iterations=60", "--base-time=2026-01-01 00:00:01 UTC", at.calendar())
		var starts []time.Time
		for _, match := range elapse.FindAllStringSubmatch(out, -1) {
			start, err := time.Parse(time.DateTime, match[1])
			if err != nil {
				t.Fatal(err)
			}
			starts = append(starts, start)
		}
		if len(starts) != 60 {
			t.Fatal(out)
		}
		for slot := winter.Add(width); !slot.After(starts[59]); slot = slot.Add(width) {
			if !slices.ContainsFunc(starts, slot.Equal) {
				t.Fatalf("%s: %s starts nothing at %s", width, at.calendar(), slot)
			}
		}
	}
}
