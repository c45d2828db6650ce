package rulestore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
)

// named is a rule whose rows name the calendar and the zone.
const named = `
calendars:
  de: {timezone: Europe/Berlin, hours: "mon-fri 09:00-17:00"}
  us: {timezone: America/New_York, hours: "mon-fri 08:00-16:00"}
rules:
  - name: order.named
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    timezone: {name: note}
    overdue: last
    steps:
      - {after: 2d, event: days}
      - {after: 3 business days, calendar: {name: channel}, event: business}
`

// A row waits for the least instant that a calendar and a zone of any row allow. A change of their columns lets the row
// be looked at again, and a change of the file replaces the bound.
func TestARowWaitsUntilItsCalendarAndZoneMayLetAStepFire(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`alter table shop.orders alter channel drop not null`)
	s.apply(named)
	s.exec("insert into shop.orders (id, placed_at, channel, note) values (1, " + at("04 12:00") + ", 'de', 'UTC'), (2, " + at("04 12:00") + ", 'x', 'Mars'), (3, " + at("04 12:00") + ", null, null)")
	const bound = "at 03-05 10:00" // two days less 26 hours
	s.wants("insert", "1 "+bound+", 2 "+bound+", 3 "+bound)
	s.exec("update prescient.future_job set next_check_at = " + at("06 12:00")) // as their checks have found
	s.exec("update shop.orders set note = 'Asia/Tokyo' where id = 1; update shop.orders set channel = 'us' where id = 2; update shop.orders set amount = 5 where id = 3")
	s.wants("before the bound", "1 "+bound+", 2 "+bound+", 3 at 03-06 12:00")
	s.exec("update prescient.future_job set next_check_at = " + at("06 12:00"))
	s.now = s.now.Add(30 * time.Hour)
	s.exec("update shop.orders set note = 'UTC' where id = 1; update shop.orders set channel = null where id = 2; update shop.orders set note = 'Mars' where id = 3")
	s.wants("after it", "1 at 03-05 18:15 came 03-05 18:00, 2 at 03-05 18:15 came 03-05 18:00, 3 at 03-05 18:15 came 03-05 18:00")

	// Another calendar of the file is told, and lowers the bound of the rule.
	plan := s.plan(strings.Replace(named, "rules:", "  ae: {hours: \"sat-sun 08:00-16:00\"}\nrules:", 1))
	if o := plan.Rules[0].Options; len(o) != 1 || o[0].Name != "calendar ae" || o[0].Is != `{"hours":"sat-sun 08:00-16:00"}` || o[0].Was != "" {
		t.Errorf("%+v", o)
	}
	plan = s.plan(strings.Replace(named, "3 business days, calendar: {name: channel}", "5d", 1))
	if o := plan.Rules[0].Options; len(o) != 2 || o[0].Name != "calendar de" || o[0].Is != "" || o[0].Was == "" {
		t.Errorf("%+v", o)
	}
	plan = s.plan(strings.Replace(named, "mon-fri 08:00-16:00", "mon-fri 08:00-18:00", 1))
	if o := plan.Rules[0].Options; len(o) != 1 || o[0].Name != "calendar us" || o[0].Is == o[0].Was || !plan.Changes() {
		t.Errorf("%+v", o)
	}
}

// The file lacks the calendar of a row, so its check fails, and is repeated after more and more slots. An apply of a file
// that has the calendar lets the check come in the next slot, and its steps count as before.
func TestAnApplyThatMendsAFailedCheckLetsItComeInTheNextSlot(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(strings.Replace(named, `  us: {timezone: America/New_York, hours: "mon-fri 08:00-16:00"}`, "", 1))
	s.exec("insert into shop.orders (id, placed_at, channel, note) values (1, " + at("04 12:00") + ", 'us', 'UTC'), (2, " + at("04 12:00") + ", 'us', 'UTC')")
	s.now = s.now.Add(7*24*time.Hour + time.Minute)
	s.exec("update prescient.future_job set next_check_at = " + at("11 16:00") + ", error_count = 5, last_error = 'no such calendar' where entity_key = '1'")
	s.exec("update prescient.future_job set next_check_at = " + at("11 12:15") + ", error_count = 1, last_error = 'no such calendar' where entity_key = '2'")
	s.apply(named)
	s.wants("apply", "1 at 03-11 12:15, 2 at 03-11 12:15")
}

// A plan counts the rows whose names are not known. An apply lets them wait for the next slot, whose check says so, and
// those whose steps are still to come for the bound.
func TestAPlanCountsTheRowsWhoseNamesAreNotKnown(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`alter table shop.orders alter channel drop not null;
		insert into shop.orders (id, placed_at, channel, note) values
			(1, ` + at("04 11:00") + `, 'de', 'Asia/Tokyo'), (2, ` + at("04 11:00") + `, 'fr', 'UTC'), (3, ` + at("01 11:00") + `, 'fr', 'UTC'), (4, ` + at("04 11:00") + `, null, 'UTC'),
			(5, ` + at("01 11:00") + `, 'de', 'Mars'), (6, null, 'fr', 'Mars')`)
	plan := s.plan(named)
	p := plan.Rules[0]
	list := make([]string, len(p.Names))
	for i, n := range p.Names {
		list[i] = n.String()
	}
	if got, want := strings.Join(list, ", "), `steps[2].calendar "fr", steps[2].calendar null, timezone "Mars"`; got != want || p.Unknown != 4 || p.Names[0].Rows != 2 {
		t.Errorf("%d: %s, want %s", p.Unknown, got, want)
	}
	// The clocks of the row say when its steps fire.
	if got := p.Forecast[0].Slots; len(got) != 3 || got[1].Timezone != "Asia/Tokyo" && got[2].Timezone != "Asia/Tokyo" {
		t.Errorf("%+v", got)
	}
	if got := s.apply(named); got.Rules[0].Unknown != 4 {
		t.Errorf("an apply: %+v", got.Rules[0])
	}
	s.wants("apply", "1 at 03-05 09:00, 2 at 03-05 09:00 came 03-04 12:00, 3 at 03-04 12:15 came 03-04 12:00, 4 at 03-05 09:00 came 03-04 12:00, 5 at 03-04 12:15 came 03-04 12:00")
}

// A value without a zone is refused if each row has one: nothing in SQL would read it by the clocks of the row.
func TestAValueWithoutAZoneIsRefusedIfEachRowHasOne(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders add local_at timestamp, add day date")
	for change, want := range map[string]string{
		"since: placed_at -> since: local_at":                              "since: local_at has no time zone, and each row has a zone of its own: write local_at::timestamp at time zone note",
		"done: shipped_at -> done: [false, day]":                           "done[2]: day has no time zone, and each row has a zone of its own: write day::timestamp at time zone note",
		"since: placed_at -> since: local_at + '1d'::interval":             "write (local_at + '1d'::interval)::timestamp at time zone note",
		"since: placed_at -> since: local_at::timestamp at time zone note": "",
	} {
		from, to, _ := strings.Cut(change, " -> ")
		_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(named, from, to, 1)), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", change, err, want)
		}
	}
}

// A zone that the server does not know is a value that cannot be computed: no write of the application fails, the row
// waits for the next slot, and waits as it should when the column is right.
func TestAZoneThatTheServerDoesNotKnowMakesNoWriteFail(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders add local_at timestamp")
	s.apply(strings.Replace(named, "since: placed_at", "since: local_at at time zone note", 1))
	s.exec("insert into shop.orders (id, local_at, channel, note) values (1, '2030-03-04 12:00', 'de', 'Mars'), (2, '2030-03-04 12:00', 'de', 'Asia/Tokyo')")
	s.wants("insert", "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-05 01:00")
	s.exec("update shop.orders set note = 'Venus'; update shop.orders set amount = 7 where id = 1")
	s.wants("both", "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00")
	s.exec("update shop.orders set note = 'UTC'")
	s.wants("corrected", "1 at 03-05 10:00, 2 at 03-05 10:00")
	s.exec("update shop.orders set note = 'Mars'; delete from shop.orders where id = 1")
	_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(named, "since: placed_at", "since: local_at at time zone note", 1)), nil)
	if err == nil || !strings.Contains(err.Error(), `since: it cannot be computed for row 2: time zone "Mars" not recognized`) {
		t.Error(err)
	}
}

// An interval of the row counts by clocks that the row names, which no trigger knows: the check finds the instant.
func TestAnIntervalByTheClocksOfTheRowIsFoundByTheCheck(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders add hold interval")
	file := strings.Replace(named, "{after: 2d,", "{after: {interval: hold, at-least: 12h},", 1)
	s.apply(file)
	s.exec("insert into shop.orders (id, placed_at, channel, note, hold) values (1, " + at("04 12:00") + ", 'de', 'UTC', '3 days'), (2, " + at("04 12:00") + ", 'de', 'Mars', null)")
	s.wants("insert", "1 at 03-05 00:00, 2 at 03-05 00:00")
	plan := s.plan(file)
	if p := plan.Rules[0]; p.Unknown != 1 || len(p.Names) != 1 {
		t.Errorf("%+v", p)
	}
}

// A rule keeps all calendars that the data of its rows may name, and only those.
func TestARuleKeepsTheCalendarsThatItsRowsMayName(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for step, want := range map[string]int{"calendar: {name: channel}": 2, "calendar: us": 1} {
		file := parse(t, strings.Replace(named, "calendar: {name: channel}", step, 1))
		applied, err := s.store.Understand(t.Context(), file, file.Rules[0])
		if err != nil || len(applied.Calendars) != want {
			t.Errorf("%s: %v, %v", step, applied.Calendars, err)
		}
		if _, err := rule.NewTiming(applied.Rule, applied.Calendars); err != nil {
			t.Error(err)
		}
	}
}
