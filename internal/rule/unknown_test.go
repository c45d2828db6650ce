package rule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/slots/grid"
)

// regions are calendars that rows name.
const regions = `
calendars:
  de: {timezone: Europe/Berlin, country: DE, region: BE, hours: "mon-fri 09:00-17:00"}
  us: {timezone: America/New_York, country: US, hours: "mon-fri 08:00-16:00"}
  ae: {timezone: Asia/Dubai, hours: "mon-thu 08:00-16:00; fri 08:00-12:00"}
`

// namedRule returns a rule whose rows name the zone, and the timing of its steps.
func namedRule(t testing.TB, timezone, steps string) (rule.Rule, *rule.Timing) {
	t.Helper()
	file, err := rule.Parse(strings.NewReader(regions + `
rules:
  - {name: r, table: shop.o, key: id, since: at, done: "false", timezone: ` + timezone + `, steps: [` + steps + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	timing, err := rule.NewTiming(file.Rules[0], file.Calendars)
	if err != nil {
		t.Fatal(err)
	}
	return file.Rules[0], timing
}

// named returns what the data of a row hold. An empty name is null.
func named(calendar, zone string) expr.Held {
	var h expr.Held
	if calendar != "" {
		h.Calendar = &calendar
	}
	if zone != "" {
		h.Timezone = &zone
	}
	return h
}

func TestAStepGoesByTheCalendarAndTheClocksOfItsRow(t *testing.T) {
	t.Parallel()
	const ofRow, region = "{name: tz}", ", calendar: {name: region}, event: e"
	pause := func(from, to string) rule.Pause { return rule.Pause{From: instantOf(t, from), To: instantOf(t, to)} }
	month := &expr.Length{Months: 1, Time: 2 * time.Hour}
	for name, test := range map[string]struct {
		timezone, step string
		held           expr.Held
		number         int
		since, want    string
		pauses         []rule.Pause
	}{
		"a day over summer time":                {ofRow, "{after: 1d, event: e}", named("", "Europe/Berlin"), 1, "2026-03-28T12:00:00+01:00", "2026-03-29T12:00:00+02:00", nil},
		"the same day elsewhere":                {ofRow, "{after: 1d, event: e}", named("", "Asia/Tokyo"), 1, "2026-03-28T12:00:00+01:00", "2026-03-29T12:00:00+01:00", nil},
		"clocks skip the time":                  {ofRow, "{after: 1d, event: e}", named("", "Europe/Berlin"), 1, "2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", nil},
		"clocks show the time twice":            {ofRow, "{after: 1d, event: e}", named("", "America/New_York"), 1, "2026-10-31T01:30:00-04:00", "2026-11-01T01:30:00-04:00", nil},
		"a zone skips a day":                    {ofRow, "{after: 1d, event: e}", named("", "Pacific/Apia"), 1, "2011-12-29T10:00:00-10:00", "2011-12-31T00:00:00+14:00", nil},
		"two days over a day that a zone skips": {ofRow, "{after: 2d, event: e}", named("", "Pacific/Apia"), 1, "2011-12-29T10:00:00-10:00", "2011-12-31T10:00:00+14:00", nil},
		"at nine":                               {ofRow, "{after: 0d at 09:00, event: e}", named("", "Asia/Tokyo"), 1, "2026-06-01T01:00:00Z", "2026-06-02T00:00:00Z", nil},
		"at nine in the evening of the day":     {ofRow, "{after: 0d at 09:00, event: e}", named("", "America/New_York"), 1, "2026-06-01T01:00:00Z", "2026-06-01T13:00:00Z", nil},
		"a month":                               {ofRow, "{after: 1 month, event: e}", named("", "America/New_York"), 1, "2026-02-01T01:00:00Z", "2026-02-28T20:00:00-05:00", nil},
		"before, over winter time":              {ofRow, "{before: 7d, event: e}", named("", "Europe/Berlin"), 1, "2026-10-28T00:00:00+01:00", "2026-10-21T00:00:00+02:00", nil},
		"time that passes":                      {ofRow, "{after: 48h, event: e}", named("", "Europe/Berlin"), 1, "2026-03-28T12:00:00+01:00", "2026-03-30T13:00:00+02:00", nil},
		"every day at nine":                     {ofRow, "{after: 1d at 09:00, every: 1d, event: e}", named("", "Europe/Berlin"), 3, "2026-03-27T12:00:00+01:00", "2026-03-31T09:00:00+02:00", nil},
		"an interval of the row":                {ofRow, "{after: {interval: i}, event: e}", expr.Held{After: month, Timezone: new("Europe/Berlin")}, 1, "2026-03-01T00:00:00+01:00", "2026-04-01T02:00:00+02:00", nil},
		"a pause of a day":                      {ofRow, "{after: 1d at 09:00, event: e}", named("", "Europe/Berlin"), 1, "2026-03-27T12:00:00+01:00", "2026-03-30T09:00:00+02:00", []rule.Pause{pause("2026-03-28T08:00:00+01:00", "2026-03-29T10:00:00+02:00")}},
		"business days over a holiday":          {"UTC", "{after: 2 business days" + region + "}", named("de", ""), 1, "2026-04-30T10:00:00+02:00", "2026-05-05T10:00:00+02:00", nil},
		"the same days in another calendar":     {"UTC", "{after: 2 business days" + region + "}", named("us", ""), 1, "2026-04-30T10:00:00-04:00", "2026-05-04T10:00:00-04:00", nil},
		"business days before":                  {"UTC", "{before: 2 business days" + region + "}", named("de", ""), 1, "2026-05-05T10:00:00+02:00", "2026-04-30T10:00:00+02:00", nil},
		"business hours":                        {"UTC", "{after: 4 business hours" + region + "}", named("ae", ""), 1, "2026-06-05T10:00:00+04:00", "2026-06-08T10:00:00+04:00", nil},
		"a half of business hours":              {"UTC", "{after: 50% of 8 business hours" + region + "}", named("us", ""), 1, "2026-06-01T09:00:00-04:00", "2026-06-01T13:00:00-04:00", nil},
		"business days at nine":                 {"UTC", "{after: 1 business day at 09:00" + region + "}", named("us", ""), 1, "2026-06-05T12:00:00-04:00", "2026-06-09T09:00:00-04:00", nil},
		"plain days on a working day at nine":   {ofRow, "{after: 1d at 09:00" + region + "}", named("us", "Asia/Tokyo"), 1, "2026-06-05T12:00:00-04:00", "2026-06-08T09:00:00-04:00", nil},
		"every business day":                    {"UTC", "{after: 1 business day, every: 1 business day" + region + "}", named("de", ""), 3, "2026-04-30T10:00:00+02:00", "2026-05-06T10:00:00+02:00", nil},
		"a calendar keeps its own zone":         {ofRow, "{after: 1 business day" + region + "}", named("de", "Asia/Tokyo"), 1, "2026-03-27T10:00:00+01:00", "2026-03-30T10:00:00+02:00", nil},
		"before, every day over a pause":        {"UTC", "{before: 4d, every: 1d, event: e}", named("", ""), 3, "2026-06-10T00:00:00Z", "2026-06-08T00:00:00Z", []rule.Pause{pause("2026-06-06T12:00:00Z", "2026-06-07T12:00:00Z")}},
		"every day after a pause before since":  {"UTC", "{before: 4d, every: 1d, event: e}", named("", ""), 6, "2026-06-10T00:00:00Z", "2026-06-11T00:00:00Z", []rule.Pause{pause("2026-06-06T12:00:00Z", "2026-06-07T12:00:00Z")}},
		"every day over a pause until later":    {"UTC", "{before: 4d, every: 1d, event: e}", named("", ""), 6, "2026-06-10T00:00:00Z", "2026-06-12T00:00:00Z", []rule.Pause{pause("2026-06-06T12:00:00Z", "2026-06-11T00:00:00Z")}},
		"before, every month over a pause":      {"UTC", "{before: 3 months, every: 1 month, event: e}", named("", ""), 3, "2026-07-01T00:00:00Z", "2026-06-01T00:00:00Z", []rule.Pause{pause("2026-04-02T00:00:00Z", "2026-04-05T00:00:00Z")}},
		"a pause in business time":              {"UTC", "{after: 4 business hours" + region + "}", named("us", ""), 1, "2026-06-01T14:00:00-04:00", "2026-06-03T10:00:00-04:00", []rule.Pause{pause("2026-06-01T20:00:00-04:00", "2026-06-02T20:00:00-04:00")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, timing := namedRule(t, test.timezone, test.step)
			since := instantOf(t, test.since)
			got, err := timing.For([]expr.Held{test.held}, test.pauses).Nth(0, since, test.number)
			if err != nil || !got.At.Equal(instantOf(t, test.want)) {
				t.Errorf("%s, %v, want %s", got.At, err, test.want)
			}
			if early := since.Add(timing.Earliest(0)); test.number == 1 && !strings.Contains(test.step, "interval") && early.After(got.At) {
				t.Errorf("the lower bound is %s", early)
			}
		})
	}
}

func instantOf(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestANameThatIsNotKnownIsToldWithWhatToDo(t *testing.T) {
	t.Parallel()
	const region = "{after: 1 business day, calendar: {name: region}, event: e}"
	long := `{after: 1 business day, calendar: {name: "(select c.region from shop.customer c join shop.country using (country) where c.id = customer_id)"}, event: e}`
	for _, test := range []struct {
		timezone, step string
		held           expr.Held
		want           string
	}{
		{"UTC", region, named("", ""), `steps[1].calendar: region is null. Set it, or write a default, such as coalesce(region, 'ae')`},
		{"UTC", region, named("fr", ""), `steps[1].calendar: region is "fr", and the file has no such calendar; it has ae, de, us. Correct the row, or add the calendar and apply the file`},
		{"UTC", region, named("usa", ""), `steps[1].calendar: region is "usa", and the file has no such calendar: did you mean us? Correct the row`},
		{"UTC", region, named(strings.Repeat("x", 1000), ""), `xxx", and the file`},
		{"UTC", long, named("", ""), `steps[1].calendar: the name is null. Set it, or write a default, such as coalesce(..., 'ae')`},
		{"{name: tz}", "{after: 48h, event: e}", named("", ""), `timezone: tz is null. Set it, or write a default, such as coalesce(tz, 'Europe/Berlin')`},
		{"{name: tz}", "{after: 1d, event: e}", named("", "Mars"), `timezone: tz is "Mars": unknown time zone Mars: use a name of the IANA database, such as Europe/Berlin`},
		{"{name: tz}", "{after: 1d, event: e}", expr.Held{Timezone: new("")}, `timezone: tz is "": it names no time zone`},
		{"{name: tz}", "{after: 1d, event: e}", named("", "Local"), `timezone: tz is "Local": time zone "Local" is not the same on each machine`},
		{"{name: tz}", "{after: 1d, event: e}", named("", "../etc/passwd"), `unknown time zone "../etc/passwd": use`},
		{"{name: tz}", region, named("de", "Mars"), `timezone: tz is "Mars"`},
	} {
		_, timing := namedRule(t, test.timezone, test.step)
		of := timing.For([]expr.Held{test.held}, nil)
		_, err := of.Nth(0, instantOf(t, "2026-06-01T12:00:00Z"), 1)
		if _, is := errors.AsType[*rule.UnknownName](err); !is || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 250 {
			t.Errorf("%v, want %s", err, test.want)
		}
		if list := of.Unknown(); len(list) != 1 {
			t.Error(list)
		}
	}
}

// A step never fires before the lower bound that SQL knows, whatever the row names.
func TestNoNameOfARowMakesAStepEarlierThanItsLowerBound(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 7))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Niue", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Asia/Pyongyang"}
	for _, step := range []string{
		"after: 1d", "after: 3d at 09:00", "after: 1 month", "after: 2 months at 00:30", "after: 1 year", "before: 1d", "before: 2w", "before: 1 month",
		"after: 1 business day", "after: 3 business days at 09:00", "after: 90 business minutes", "after: 20 business hours", "before: 1 business day", "before: 30 business hours",
	} {
		calendar := ""
		if strings.Contains(step, "business") {
			calendar = ", calendar: {name: region}"
		}
		_, timing := namedRule(t, "{name: tz}", "{"+step+calendar+", event: e}")
		for range 2000 {
			since := time.Date(2011, time.January, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rnd.Int64N(int64(20 * 365 * 24 * time.Hour))))
			held := named([]string{"de", "us", "ae"}[rnd.IntN(3)], zones[rnd.IntN(len(zones))])
			got, err := timing.For([]expr.Held{held}, nil).Nth(0, since, 1)
			if early := since.Add(timing.Earliest(0)); err != nil || got.At.Before(early) {
				t.Fatalf("%s since %s in %s, %s: %s, %v, but not before %s", step, since, *held.Timezone, *held.Calendar, got.At, err, early)
			}
		}
	}
}

// A calendar that is not known holds up its own step, and no other one. It is told when the step may be due.
func TestANameThatIsNotKnownHoldsUpItsStepAlone(t *testing.T) {
	t.Parallel()
	r, timing := namedRule(t, "UTC", `{after: 24h, event: first}, {after: 3 business days, calendar: {name: region}, event: lost}, {after: 30d, event: last}`)
	d := rule.Decider{Rule: r, Timing: timing, Grid: grid.Default}
	since := instantOf(t, "2026-06-01T12:00:00Z")
	decide := func(region, zone string, after time.Duration, fired ...string) string {
		m := rule.Memory{Fired: map[string]rule.Occurrence{}}
		for _, step := range fired {
			m.Fired[step] = rule.Occurrence{Number: 1}
		}
		h := named(region, zone)
		at := since.Add(after)
		row := rule.Row{There: true, About: true, Counts: true, Since: since, Held: []expr.Held{h, h, h}}
		is, err := d.Decide(row, m, rule.Moment{Begun: at, Slot: at, Now: at})
		text := ""
		for _, due := range is.Due {
			text += r.Steps[due.Step].Name + " "
		}
		if !is.Next.IsZero() {
			text += is.Next.Sub(since).String()
		}
		if _, unknown := errors.AsType[*rule.UnknownName](err); unknown {
			return "unknown"
		}
		return text + is.Found
	}
	const day = 24 * time.Hour
	least := timing.Earliest(1)
	for _, test := range []struct {
		got, want string
	}{
		{decide("fr", "", 0), "24h0m0s"},
		{decide("fr", "", day), "first " + least.String()},
		{decide("fr", "", least-time.Hour, "first"), least.String()},
		{decide("fr", "", least, "first"), "unknown"},
		{decide("fr", "", least), "first " + fmt.Sprint(d.Grid.Next(since.Add(least)).Sub(since))},
		{decide("fr", "", 30*day, "first"), "last " + fmt.Sprint(30*day+15*time.Minute)},
		{decide("fr", "", 30*day, "first", "last"), "unknown"},
		{decide("fr", "", 30*day, "first", "lost", "last"), "open"}, // all have fired before the name
		{decide("de", "", 30*day, "first", "last"), "lost open"},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
	r, timing = namedRule(t, "{name: tz}", `{after: 24h, event: first}`)
	d = rule.Decider{Rule: r, Timing: timing, Grid: grid.Default}
	for after, want := range map[time.Duration]string{day: "unknown", 0: "24h0m0s"} { // a row without clocks has no statement and no message
		if got := decide("", "Mars", after); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	// By days, the step would fire then by the clocks of UTC: a column that is filled in later is no error yet.
	r, timing = namedRule(t, "{name: tz}", `{after: 1 month, event: first}`)
	d = rule.Decider{Rule: r, Timing: timing, Grid: grid.Default}
	if got := decide("", "", 0); got != "720h0m0s" {
		t.Error(got)
	}
}

// A step that has fired does not fire again when the row names another calendar or zone, and no step is left out
// because another one that has fired comes later now.
func TestAStepThatHasFiredStaysSoIfTheRowNamesAnother(t *testing.T) {
	t.Parallel()
	r, timing := namedRule(t, "{name: tz}", `{after: 1d at 09:00, every: 1d, times: 3, event: nag}, {after: 25h, event: once}`)
	d := rule.Decider{Rule: r, Timing: timing, Grid: grid.Default}
	since := instantOf(t, "2026-06-01T05:00:00Z")
	nine := instantOf(t, "2026-06-02T00:00:00Z") // in Tokyo, after its day ended at 05:00 UTC the day before
	m := rule.Memory{Fired: map[string]rule.Occurrence{"nag": {Number: 1, At: nine.Add(24 * time.Hour)}}}
	at := nine.Add(25 * time.Hour)
	zone := "America/New_York"
	row := rule.Row{There: true, About: true, Counts: true, Since: since, Held: []expr.Held{{Timezone: &zone}}}
	is, err := d.Decide(row, m, rule.Moment{Begun: at, Slot: at, Now: at})
	if err != nil || len(is.Due) != 1 || r.Steps[is.Due[0].Step].Name != "once" || len(is.LeftOut) > 0 {
		t.Fatalf("%+v, %v", is, err)
	}
	// The next time comes a day after the last one, at nine in New York.
	if want := instantOf(t, "2026-06-03T09:00:00-04:00"); !is.Next.Equal(want) {
		t.Errorf("%s, want %s", is.Next, want)
	}
}
