package crontab_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	cron "github.com/netresearch/go-cron"

	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
)

func TestAMalformedCrontabIsRefusedAndTheErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for expr, want := range map[string]string{
		"":                                      "it is empty: write minute, hour",
		" \t ":                                  "it is empty",
		"* * * *":                               "4 of 5 fields: day of week is missing",
		"5":                                     "1 of 5 fields: hour is missing",
		"0 */5 * * * *":                         "6 fields instead of 5: it begins with the minute; seconds and years are not supported",
		"0 0 12 1 1 * 2027":                     `7 fields instead of 5`,
		"60 * * * *":                            `minute: "60" is not one of 0-59`,
		"* 24 * * *":                            `hour: "24" is not one of 0-23`,
		"* * 0 * *":                             `day of month: "0" is not one of 1-31`,
		"* * 32 * *":                            `day of month: "32" is not one of 1-31`,
		"* * * 13 *":                            `month: "13" is not one of 1-12 or jan, feb`,
		"* * * january *":                       `month: "january" is not one of 1-12 or jan, feb`,
		"* * * * 8":                             `day of week: "8" is not one of 0-7 or sun, mon`,
		"* * * mon *":                           `month: "mon" is not one of`,
		"jan * * * *":                           `minute: "jan" is not one of 0-59`,
		"-5 * * * *":                            "minute: a value is missing",
		"5- * * * *":                            "minute: a value is missing",
		"5,,6 * * * *":                          "minute: a value is missing",
		", * * * *":                             "minute: a value is missing",
		"* *, * * *":                            "hour: a value is missing",
		"1-2-3 * * * *":                         `minute: "2-3" is not one of 0-59`,
		"+5 * * * *":                            `minute: "+5" is not one of 0-59`,
		"5.5 * * * *":                           `minute: "5.5" is not one of 0-59`,
		"٣ * * * *":                             `minute: "٣" is not one of 0-59`,
		"00000000005 * * * *":                   `minute: "00000000005" is not one of 0-59`,
		"** * * * *":                            `minute: "**" is not one of 0-59`,
		"*-5 * * * *":                           `minute: "*" is not one of 0-59`,
		"* 22-2 * * *":                          `hour: the range "22-2" goes backwards: write "22-23,0-2"`,
		"* * * nov-feb *":                       `month: the range "nov-feb" goes backwards: write "nov-12,1-feb"`,
		"* * * * sat-mon":                       `day of week: the range "sat-mon" goes backwards: write "sat-7,0-mon"`,
		"*/0 * * * *":                           `minute: the step of "*/0" is no number from 1 on`,
		"*/ * * * *":                            `minute: the step of "*/" is no number from 1 on`,
		"*/-5 * * * *":                          `minute: the step of "*/-5" is no number from 1 on`,
		"*/5/5 * * * *":                         `minute: the step of "*/5/5" is no number from 1 on`,
		"/5 * * * *":                            "minute: a value is missing",
		"*/90 * * * *":                          `minute: the step of "*/90" is longer than 0-59: for an interval, see "@every 90m"; for one value, write 0`,
		"* 8-12/6 * * *":                        `hour: the step of "8-12/6" is longer than 8-12`,
		"50/15 * * * *":                         `minute: the step of "50/15" is longer than 50-59`,
		"? * * * *":                             `minute: "?": ? is not supported: write *`,
		"L * * * *":                             `minute: "L": L is for a day on its own`,
		"0 15W * * *":                           `hour: "15W": W is for a single day of the month`,
		"0 0 1 jan#1 *":                         `month: "jan#1": # is for a single day of the week`,
		"0 0 L/2 * *":                           `day of month: "L": L is for a day on its own`,
		"0 0 L-31 * *":                          `day of month: "L-31": after L- comes a number of days, 1-30`,
		"0 0 L-0 * *":                           `day of month: "L-0": after L- comes a number of days, 1-30`,
		"0 0 L-3W * *":                          `day of month: "L-3W": after L- comes a number of days, 1-30`,
		"0 0 32W * *":                           `day of month: "32W": before W comes one day of the month, 1-31, or L`,
		"0 0 15W-20W * *":                       `day of month: "15W-20W": before W comes one day of the month, 1-31, or L`,
		"0 0 5L * *":                            `day of month: "5L": L is for a day on its own`,
		"0 0 * * L":                             `day of week: "L": write the day of the week before it: friL or 5L`,
		"0 0 * * LW":                            `day of week: "LW": L is for a day on its own`,
		"0 0 * * mon-friL":                      `day of week: "mon-fri" is not one of 0-7`,
		"0 0 * * fri#6":                         `day of week: "fri#6": after # comes a number from 1 to 5; for the last such day, write friL`,
		"0 0 * * fri#L":                         `day of week: "fri#L": after # comes a number from 1 to 5; for the last such day, write friL`,
		"0 0 * * fri#2-4":                       `day of week: "fri#2-4": after # comes a number from 1 to 5`,
		"0 0 * * 8#1":                           `day of week: "8" is not one of 0-7`,
		"0 0 30W 2 *":                           `it would never fire: month "2" has no day "30W"`,
		"0 0 15W * */6":                         `it would never fire: month "*" has no day "15W" that is also "*/6" of the week`,
		"0 0 L-29 2 *":                          `it would never fire: month "2" has no day "L-29"`,
		"0 0 * * ?":                             `day of week: "?": ? is not supported`,
		"0 0 * * */8":                           `day of week: the step of "*/8" is longer than 0-6`,
		"0 0 * * 7/2":                           `day of week: the step of "7/2" is longer than 7-7: for an interval, see "@every 90m"; for one value, write 7`,
		"0 0 30 2 *":                            `it would never fire: month "2" has no day "30"`,
		"0 0 30,31 feb */2":                     `it would never fire`,
		"0 0 31 2,4,6,9,11 *":                   `it would never fire: month "2,4,6,9,11" has no day "31"`,
		"@reboot":                               `"@reboot" is none of @yearly, @annually`,
		"@Daily":                                `"@Daily" is none of`,
		"@daily 5":                              `"@daily 5" is none of`,
		"@":                                     `"@" is none of`,
		"@every":                                `@every: "" is no interval`,
		"@every 5":                              `@every: "5" is no interval`,
		"@every 0s":                             `@every: "0s" is no interval: whole seconds, at least one`,
		"@every -5m":                            `@every: "-5m" is no interval`,
		"@every 999ms":                          `@every: "999ms" is no interval`,
		"@every 1.5s":                           `@every: "1.5s" is no interval`,
		"@every 1.5d":                           `@every: "1.5d" is no interval: whole seconds, at least one, such as 30s, 90m, 1d12h or 2w`,
		"@every 12h1d":                          `@every: "12h1d" is no interval`,
		"@every 1d2w":                           `@every: "1d2w" is no interval`,
		"@every 1d+2h":                          `@every: "1d+2h" is no interval`,
		"@every 1d-2h":                          `@every: "1d-2h" is no interval`,
		"@every -1d":                            `@every: "-1d" is no interval`,
		"@every d":                              `@every: "d" is no interval`,
		"@every 0d":                             `@every: "0d" is no interval`,
		"@every 9999w9999d2562047h":             `@every: "9999w9999d2562047h" is no interval`,
		"@every 9999999h":                       `@every: "9999999h" is no interval`,
		"@at":                                   `@at: "" is no instant`,
		"@at tomorrow":                          `@at: "tomorrow" is no instant`,
		"@at -1":                                `@at: "-1" is no instant between 1970 and 9999`,
		"@at 1647067401000":                     `@at: "1647067401000" is no instant between 1970 and 9999 in Unix seconds (not milliseconds)`,
		"@at 1647067401 5":                      `@at: "1647067401 5" is no instant`,
		"CRON_TZ=":                              "CRON_TZ= names no time zone",
		"CRON_TZ= 0 8 * * *":                    "CRON_TZ= names no time zone: write it right after the =, such as CRON_TZ=Europe/Berlin",
		"TZ=0":                                  "unknown time zone 0: use a name of the IANA database",
		"TZ=UTC":                                "it is empty",
		"TZ=UTC 0 8 * *":                        "4 of 5 fields",
		"TZ=UTC+1 0 8 * * *":                    "unknown time zone UTC+1: use a name of the IANA database, such as Europe/Berlin",
		"TZ=UTC TZ=UTC @at 5":                   "3 of 5 fields",
		"tz=UTC 0 8 * * *":                      "6 fields instead of 5",
		"TZ=Local @daily":                       `time zone "Local" is not the same on each machine: name one`,
		"TZ=local @daily":                       `time zone "local" is not the same on each machine`,
		"TZ=localtime @daily":                   `time zone "localtime" is not the same on each machine`,
		"TZ=right/UTC @daily":                   `time zone "right/UTC": leave out "right/"`,
		"TZ=./right/UTC @daily":                 `unknown time zone "./right/UTC": use a name of the IANA database`,
		"TZ=.//localtime @daily":                `unknown time zone ".//localtime": use a name of the IANA database`,
		"TZ=Europe//Berlin @daily":              `unknown time zone "Europe//Berlin": use a name of the IANA database`,
		"TZ=" + long + " @daily":                `unknown time zone "` + long[:60] + `": use a name of the IANA database`,
		"TZ=../UTC @daily":                      "use a name of the IANA database",
		"TZ=/etc/localtime 0 8 * * *":           "use a name of the IANA database",
		"TZ=Europe 0 8 * * *":                   "use a name of the IANA database",
		"TZ=U\x00C @daily":                      "use a name of the IANA database",
		strings.Repeat("1,", 500) + "1 * * * *": "1009 characters, of at most 1000",
	} {
		c, err := crontab.Parse(expr, "", grid.Min())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "parse crontab") {
			t.Errorf("%q: %v, want %s", expr, err, want)
		}
		if c != (crontab.Crontab{}) {
			t.Errorf("%q: an error and a crontab, %v", expr, c)
		}
	}
}

func TestAnExclusionThatIsNoneIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         `exclusion "": want days of the week`,
		"@daily":                   "want days of the week",
		"TZ=Asia/Tokyo":            "want days of the week",
		"TZ=Asia/Atlantis sun":     "unknown time zone",
		"2026-02-30":               "want a day such as 2026-12-25",
		"2026-12-25..2026-12-24":   "want a day such as",
		"2026-12-25..":             "want a day such as",
		"2026-12-25 ":              "",
		"6-7":                      "",
		"TZ=Asia/Tokyo 2026-12-25": "",
		"sunday":                   `exclusion "sunday": want days of the week (sat,sun), a day (2026-12-25), `,
		"* * * *":                  "4 of 5 fields",
		"* * L/2 * *":              "L is for a day on its own",
		"* * LW * *":               "",
		"fri#2":                    "",
	} {
		_, err := parse(t, "* * * * *", "").Except([]string{text}, time.UTC)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestNothingIsLeftOfWhatIsAllLeftOut(t *testing.T) {
	t.Parallel()
	for expr, exclusion := range map[string]string{
		"0 * * * *": "* * * * *", "@every 1s": "mon-sun", "0 9 * * *": "0 9 * * *", "* * * * fri": "* * * * fri", "@at 1800000000": "2027-01-15",
	} {
		c, err := parse(t, expr, "").Except([]string{exclusion}, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := c.Next(at(t, "2027-01-01T00:00:00Z")); ok {
			t.Errorf("%s without %s: %s", expr, exclusion, at)
		}
	}
}

func TestTheSecondsOfAMinuteAreLeftOutTogether(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "@every 20s", "").Except([]string{"CRON_TZ=Asia/Tokyo 0-58 9 * * *", "sun"}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"2027-01-04T23:59:50Z": "2027-01-05T00:59:00Z", "2027-01-05T00:58:59Z": "2027-01-05T00:59:00Z",
		"2027-01-09T23:59:40Z": "2027-01-11T00:59:00Z", // Saturday, a Sunday, and 9 to 10 on Monday in Tokyo
	} {
		if next, ok := c.Next(at(t, from)); !ok || next != at(t, want) {
			t.Errorf("after %s comes %s, want %s", from, next, want)
		}
	}
}

// alternating returns 100 exclusions of single minutes. All together they take in January to June.
func alternating(zone string) (list []string) {
	for i := range 100 {
		list = append(list, fmt.Sprintf("%s%d-59/2 * * 1-6 *", zone, i%2))
	}
	return list
}

// Each look for what is left passes over a whole day: what is excluded minute by minute would end
// the search after 22 days.
func TestExclusionsThatAlternateAreJoined(t *testing.T) {
	t.Parallel()
	for name, exclusions := range map[string][]string{
		"one zone":  alternating(""),
		"two zones": append(alternating(""), alternating("CRON_TZ=Asia/Tokyo ")...),
	} {
		c, err := parse(t, "* * * * *", "").Except(exclusions, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if next, ok := c.Next(at(t, "2027-01-01T00:00:00Z")); !ok || next != at(t, "2027-07-01T00:00:00Z") {
			t.Errorf("%s: %s %t", name, next, ok)
		}
	}
}

func TestTwoDifferentZonesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := crontab.Parse("CRON_TZ=Asia/Tokyo @daily", "Europe/Paris", grid.Min())
	if want := `two time zones, "Asia/Tokyo" in the expression and "Europe/Paris" beside it: leave out one`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	for _, zone := range []string{"Local", "Europa/Paris", " "} {
		if _, err := crontab.Parse("@at 5", zone, grid.Min()); err == nil {
			t.Errorf("time zone %q is accepted", zone)
		}
	}
}

func TestTheAnchorOfAnIntervalIsBounded(t *testing.T) {
	t.Parallel()
	for _, anchor := range []time.Time{{}, grid.Min().Add(-1), grid.Max().Add(time.Second)} {
		if _, err := crontab.Parse("@every 90m", "", anchor); err == nil || !strings.Contains(err.Error(), "its anchor") {
			t.Errorf("anchor %s: %v", anchor, err)
		}
		if _, err := crontab.Parse("@daily", "", anchor); err != nil {
			t.Errorf("anchor %s: %v", anchor, err)
		}
	}
}

// openStep is a step from a value on, such as 1/2.
var openStep = regexp.MustCompile(`(^|,)\d+/`)

// lastWeekday is the last such day of the month, which go-cron writes fri#L.
var lastWeekday = regexp.MustCompile(`\b(\d|Sun|Mon|Tue|Wed|Thu|Fri|Sat)L`)

// Where go-cron means the same by an expression, it finds the same instants. It does not for a step
// on the days beside another restriction, for "1/2" in the day of the week, where it counts Sunday
// twice, nor around changes of time.
func TestExpressionsMeanWhatTheyMeanToGoCron(t *testing.T) {
	t.Parallel()
	peer, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom | cron.Extended)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	compared := 0
	for range 2000 {
		e := anExpression(random)
		if e.either != (e.texts[2] != "*" && e.texts[4] != "*") || openStep.MatchString(e.texts[4]) {
			continue
		}
		theirs, err := peer.Parse("CRON_TZ=UTC " + lastWeekday.ReplaceAllString(e.String(), "$1#L"))
		if err != nil {
			continue // a step as long as its range
		}
		ours := parse(t, e.String(), "UTC")
		from := grid.Min().Add(time.Duration(random.Int64N(1<<62)) % (100 * 365 * 24 * time.Hour))
		for range 5 {
			next, ok := ours.Next(from)
			if want := theirs.Next(from); !ok || !next.Equal(want) {
				t.Fatalf("%q: after %s comes %s, and with go-cron %s", e, from, next, want)
			}
			from = next
		}
		compared++
	}
	if compared < 500 {
		t.Errorf("only %d of 2000 expressions are compared", compared)
	}
}

func FuzzParse(f *testing.F) {
	for _, expr := range []string{
		"*/15 8-18 1,15 jan-jun mon-fri", "59 23 29 2 */7", "0 0 30 2 *", "5/15,7 * * * sun", "0 0 L,L-3,LW,15W * friL,5#2", "CRON_TZ=Asia/Gaza 30 0 * * *",
		"TZ=0", "TZ= @daily", "@every 90m", "@every 9223372036s", "@at 1647067401", "@at 253402214400", "@yearly", "\xff * * * *",
	} {
		f.Add(expr, "", int64(1_700_000_000), int64(1_800_000_000))
		f.Add(expr, "America/New_York", int64(0), int64(-1))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, anchor, after int64) {
		c, err := crontab.Parse(expr, zone, time.Unix(anchor, 0))
		if err != nil {
			if c != (crontab.Crontab{}) {
				t.Fatalf("an error and a crontab: %v", err)
			}
			return
		}
		if _, ok := c.Next(grid.Min().Add(-1)); !ok {
			t.Fatal("it never fires")
		}
		before := time.Unix(after, 0)
		for range 50 {
			next, ok := c.Next(before)
			if !ok {
				return
			}
			if !next.After(before) || next.Nanosecond() != 0 || next.Location() != time.UTC {
				t.Fatalf("Next(%s) = %s", before, next)
			}
			if between := before.Add(next.Sub(before) / 2); between.Before(next) {
				if again, ok := c.Next(between); !ok || again != next {
					t.Fatalf("Next(%s) = %s, and Next(%s) = %s", before, next, between, again)
				}
			}
			if prev, ok := c.Prev(next.Add(time.Second)); !ok || prev != next {
				t.Fatalf("Prev(%s) = %s", next.Add(time.Second), prev)
			}
			before = next
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, expr := range []string{"*/15 * * * *", "30 2 1,15 jan-jun mon-fri", "@daily", "@every 90m"} {
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := crontab.Parse(expr, "Europe/Berlin", grid.Min()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	from := at(b, "2031-03-05T12:34:56Z")
	for _, expr := range []string{"*/15 * * * *", "30 2 * * *", "30 2 1 * mon", "@yearly", "59 23 29 2 */7", "@every 90m"} {
		c := parse(b, expr, "Europe/Berlin")
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Next(from)
			}
		})
	}
}

func BenchmarkLatest(b *testing.B) {
	from, to := at(b, "2030-03-05T12:34:56Z"), at(b, "2031-03-05T12:34:56Z")
	for _, expr := range []string{"* * * * *", "30 2 * * *", "0 9 1 * *"} {
		c := parse(b, expr, "Europe/Berlin")
		b.Run(expr, func(b *testing.B) {
			for b.Loop() {
				c.Latest(10, from, to)
			}
		})
	}
}

func BenchmarkNextWithExclusions(b *testing.B) {
	c, err := crontab.Parse("* * * * *", "", time.Time{})
	if err == nil {
		c, err = c.Except(alternating("CRON_TZ=Europe/Berlin "), time.UTC)
	}
	if err != nil {
		b.Fatal(err)
	}
	from := time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Next(from)
	}
}
