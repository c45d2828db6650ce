package rule

import (
	"cmp"
	"slices"
	"time"
)

// File is a file of rules.
type File struct {
	// Calendars has the calendars that steps name.
	Calendars map[string]Calendar `json:"calendars,omitempty"`
	// Rules are in the order of the file. Their names are unique.
	Rules []Rule `json:"rules"`
}

// Calendar says when a business works.
type Calendar struct {
	// Timezone is a name of the IANA database. Defaults to UTC.
	Timezone string `json:"timezone,omitempty"`
	// Country and Region name the public holidays, such as DE and BE (ISO 3166-1 and 3166-2). Empty:
	// no public holidays.
	Country string `json:"country,omitempty"`
	Region  string `json:"region,omitempty"`
	// Hours are the working hours of days of the week, such as "mon-fri 09:00-17:00". Defaults to
	// "mon-fri 00:00-24:00". Several hours are "mon-thu 09:00-12:00,13:00-17:00; fri 09:00-15:00".
	Hours string `json:"hours,omitempty"`
	// Holidays are further days without work: "2026-12-24", "12-24" of each year, or the end of a
	// day, "12-24 from 12:00".
	Holidays []string `json:"holidays,omitempty"`
	// Files are files with further days without work. Their days were read with the file of the calendar.
	Files []HolidayFile `json:"files,omitempty"`
	// Workdays are no holidays, although Country, Holidays or Files have them: "2026-12-24", or "12-24" of
	// each year.
	Workdays []string `json:"workdays,omitempty"`
}

// HolidayFile is a file of holidays, in the iCalendar format.
type HolidayFile struct {
	// Name is its path, relative to the directory of the file that names it.
	Name string    `json:"name"`
	Days []FileDay `json:"days"`
}

// FileDay is a day of a file, such as "2026-12-24", or "12-24" of each year.
type FileDay struct {
	Day  string `json:"day"`
	Name string `json:"name,omitempty"`
	// From and Until are the first and the last year of a day of each year. 0: it has no such bound.
	From  int `json:"from,omitempty"`
	Until int `json:"until,omitempty"`
	// Except are years without the day.
	Except []int `json:"except,omitempty"`
}

// Rule says what to do for the rows of a table for which something has not happened in time.
type Rule struct {
	// Name names the rule, and the job of its checks: 1 to 200 bytes.
	Name string `json:"name"`
	// Table is the table, with its schema: shop.orders.
	Table string `json:"table"`
	// Key is the column whose value identifies a row, or the columns whose values do so together. They have a primary
	// key or a unique constraint of their own, with the columns in this order. There is at least one.
	Key Texts `json:"key"`
	// Entity is the name of the row in events and in prescient why NAME KEY. Defaults to the name of the table without
	// its schema.
	Entity string `json:"entity,omitempty"`
	// Since has the instants from which delays count, as SQL: the latest counts. A row of which all are null is ignored
	// until one is set. There is at least one.
	Since Texts `json:"since"`
	// Done has instants at which the expected thing happens, or conditions that are true once it has happened,
	// as SQL. One suffices. There is at least one.
	Done Texts `json:"done"`
	// Where has the conditions of the rows that the rule is about, as SQL. All must be true. Empty: all rows.
	Where Texts `json:"where,omitempty"`
	// Pause has conditions while which the clock of a row stands still, as SQL about columns of the row. One suffices.
	// Empty: the clock never does.
	Pause Texts `json:"pause,omitempty"`
	// Payload lists the columns whose values go with events.
	Payload []string `json:"payload,omitempty"`
	// Values are further values that go with events: expressions of SQL, which may look up other tables.
	Values []Value `json:"values,omitempty"`
	// Also lists the other tables whose writes let a row be looked at in the next slot.
	Also []Also `json:"also,omitempty"`
	// Recheck matters only to a rule that looks up another table. Such a table may start the clock of a row, or move it
	// after the last step, and no trigger tells: so the row is checked again after each Recheck. With Recovered, it is
	// also checked again if a step has fired and another table may say that the row is done. Defaults to 5 minutes.
	// With Also, the triggers of those tables tell, and it defaults to never.
	Recheck Delay `json:"recheck,omitzero"`
	// Timezone is a name of the IANA database. Its clocks say what a day and a time of day are. Defaults to
	// UTC. TimezoneName does so for a row whose data hold the name, as SQL of type text. If it is null, or no zone has the
	// name, the check of the row fails. At most one is set.
	Timezone     string `json:"timezone,omitempty"`
	TimezoneName string `json:"timezone_name,omitempty"`
	// Steps fire if the row is not done in time, the earliest first. There is at least one.
	Steps []Step `json:"steps"`
	// Overdue says what becomes of steps that have passed when a row comes to the rule.
	Overdue Overdue `json:"overdue,omitzero"`
	// Recovered follows when a row for which a step has fired is done, or when its clock has moved.
	Recovered Act `json:"recovered,omitzero"`
	// Met follows when a row is done in time: no step has fired, and none was left out.
	Met Act `json:"met,omitzero"`
	// AtOnce ends the wait of a row in the transaction in which Done becomes true; with Recovered, a check in
	// the next slot ends it. Otherwise a check looks at Done when a step is due.
	AtOnce bool `json:"at_once,omitempty"`
	// Role is the database role that reads the table, and executes the SQL of steps. Empty: the
	// login of the run.
	Role string `json:"role,omitempty"`
	// Line is the line of the rule in its file, for messages. 0: not known.
	Line int `json:"-"`
	// Lines are the lines of its fields, such as "key" and "steps[1].after".
	Lines map[string]int `json:"-"`
}

// RecheckEvery returns Recheck, or its default. 0: never.
func (r Rule) RecheckEvery() time.Duration {
	if len(r.Also) > 0 {
		return r.Recheck.Duration
	}
	return cmp.Or(r.Recheck.Duration, 5*time.Minute)
}

// Value is a value of the payload of events.
type Value struct {
	// Name is its field in the payload: title.
	Name string `json:"name"`
	// SQL is an expression, such as (select e.title from shop.event e where e.id = reminders.event_id).
	SQL string `json:"sql"`
}

// fields returns the names of what goes with events.
func (r Rule) fields() []string {
	names := slices.Clone(r.Payload)
	for _, v := range r.Values {
		names = append(names, v.Name)
	}
	return names
}

// Also is another table that rules look up.
type Also struct {
	// Table is the table, with its schema: shop.payment.
	Table string `json:"table"`
	// Key is its column with the key of the row of the rule: order_id. It has as many columns as that key.
	Key Texts `json:"key"`
}

// Overdue says what becomes of steps that have passed when a row comes to a rule: it is there when the rule is
// applied, it is written late, or it enters Where late. The zero value is OverdueLast, but it refuses to apply the rule
// if there are such rows. Its text is "fire", "last", "skip", or such as "spread 8".
type Overdue struct {
	// Policy is empty, OverdueFire, OverdueLast, OverdueSkip or OverdueSpread.
	Policy OverduePolicy
	// Slots is how many slots OverdueSpread spreads the checks over.
	Slots int
}

// OverduePolicy is a policy for steps that have passed.
type OverduePolicy string

// The policies for steps that have passed.
const (
	// OverdueFire lets all of them fire in the next slot.
	OverdueFire OverduePolicy = "fire"
	// OverdueLast lets the latest of them fire in the next slot.
	OverdueLast OverduePolicy = "last"
	// OverdueSkip lets none of them fire.
	OverdueSkip OverduePolicy = "skip"
	// OverdueSpread lets all of them fire, the rows spread over the next slots.
	OverdueSpread OverduePolicy = "spread"
)
