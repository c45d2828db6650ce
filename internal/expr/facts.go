package expr

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Facts are the expressions of a rule about a row of its table.
type Facts struct {
	// Zone is the IANA time zone in which clocks show timestamps and dates. Empty: UTC.
	Zone string `json:"zone,omitempty"`
	// Since has the instants from which delays count: the latest counts, and a null one does not. There is at least one.
	Since []Expr `json:"since"`
	// Changed has the columns of the row, as SQL, whose last change lets the clock start, too. What the triggers have not
	// noted counts as changed at ChangedFrom, when a rule with these columns was first applied. Since may then be empty.
	Changed     []string  `json:"changed,omitempty"`
	ChangedFrom time.Time `json:"changed_from,omitzero"`
	// Where has the conditions of the rows that the rule is about. All must be true.
	Where []Expr `json:"where,omitempty"`
	// Done says that the expected thing has happened: a condition that is true, or an instant that has come. One
	// suffices. There is at least one.
	Done []Expr `json:"done"`
	// Pause says that the clock of the row stands still. One condition suffices. Triggers note when that begins and ends.
	// A row that they have not seen begin counts as paused from PausedFrom, when a rule with these conditions was first
	// applied.
	Pause      []Expr    `json:"pause,omitempty"`
	PausedFrom time.Time `json:"paused_from,omitzero"`
	// After has the delay of each step that the data hold, by the position of the step. Its length is that of the steps,
	// or 0 if no step has one. The zero value is a step with a constant delay.
	After []Expr `json:"after,omitempty"`
	// Every and Times have the delay between the times of each step, and their number, in the same way.
	Every []Expr `json:"every,omitempty"`
	Times []Expr `json:"times,omitempty"`
	// Calendar has the name of the calendar of each step, in the same way.
	Calendar []Expr `json:"calendar,omitempty"`
	// Timezone is the name of the zone whose clocks count for the row. The zero value: those of Zone do. No Since and no
	// Done has a value without a zone then.
	Timezone Expr `json:"timezone,omitzero"`
}

// all yields every expression.
func (f Facts) all() []Expr {
	return append(slices.Concat(f.Since, f.Where, f.Done, f.Pause, f.After, f.Every, f.Times, f.Calendar), f.Timezone)
}

// Lookup reports whether any expression reads other rows.
func (f Facts) Lookup() bool { return len(f.Changed) > 0 || slices.ContainsFunc(f.all(), lookup) }

// SinceLookup reports whether the values of the row do not tell when the clock starts.
func (f Facts) SinceLookup() bool { return len(f.Changed) > 0 || f.SinceMoves() }

// SinceMoves reports whether another row can let the clock start, or start again.
func (f Facts) SinceMoves() bool { return slices.ContainsFunc(f.Since, lookup) }

// EndLookup reports whether another row can end what let a step fire: it starts the clock again, or ends the wait.
func (f Facts) EndLookup() bool { return f.SinceMoves() || slices.ContainsFunc(f.Done, lookup) }

func lookup(e Expr) bool { return e.Lookup }

// row returns the facts without the expressions that read other rows.
func (f Facts) row() Facts {
	alone := func(list []Expr) []Expr {
		return slices.DeleteFunc(slices.Clone(list), lookup)
	}
	return Facts{Zone: f.Zone, Since: alone(f.Since), Where: alone(f.Where), Done: alone(f.Done)}
}

// SinceSQL returns the SQL of the instant from which delays count. It is null if there is none, and if it is not
// between FirstSince and LastSince.
func (f Facts) SinceSQL() string {
	if len(f.Since) == 0 {
		return "null::timestamptz"
	}
	var list []string
	for _, e := range f.Since {
		list = append(list, e.instant(f.Zone))
	}
	return fmt.Sprintf("(select case when s >= timestamptz '%s' and s < timestamptz '%s' then s end "+
		"from (select greatest(%s) as s offset 0) as prescient_s)",
		FirstSince, LastSince, strings.Join(list, ", "))
}

// StartSQL returns the SQL of the value behind SinceSQL, as text, if it has no time zone: two instants of it are the
// same start of the clock if a zone has another law meanwhile. It is null for an instant.
func (f Facts) StartSQL() string {
	var list []string
	local := false
	for _, e := range f.Since {
		text := "null::text"
		if e.Type != Instant {
			local, text = true, "("+e.SQL+")::timestamp::text"
		}
		list = append(list, fmt.Sprintf("(%s, %s)", e.instant(f.Zone), text))
	}
	if !local {
		return "null::text"
	}
	return fmt.Sprintf("(select s from (values %s) as prescient_s (i, s) where i is not null order by i desc, s limit 1)",
		strings.Join(list, ", "))
}

// RowSinceSQL returns what the row alone says of SinceSQL: an instant that is not later, and null for never. It is
// "-infinity" if only other rows can tell.
func (f Facts) RowSinceSQL() string {
	alone := f.row()
	switch {
	case len(alone.Since) == 0:
		return "timestamptz '-infinity'"
	case f.SinceLookup():
		return fmt.Sprintf("coalesce(%s, timestamptz '-infinity')", alone.SinceSQL())
	}
	return alone.SinceSQL()
}

// WhereSQL returns the SQL of whether the rule is about the row. It is never null.
func (f Facts) WhereSQL() string { return conjunction(f.Where, f.begins(f.Since)) }

// RowWhereSQL returns what the row alone says of WhereSQL. It is true if other rows decide.
func (f Facts) RowWhereSQL() string { return conjunction(f.row().Where, f.begins(f.row().Since)) }

// begins returns the SQL of whether the clock begins at all if it also counts from changes: not if another instant
// stands for never, since that is later than any change. Otherwise returns "", because SinceSQL is null then.
func (f Facts) begins(since []Expr) string {
	if len(f.Changed) == 0 || len(since) == 0 {
		return ""
	}
	var list []string
	for _, e := range since {
		list = append(list, e.instant(f.Zone))
	}
	return fmt.Sprintf("(greatest(%s) >= timestamptz '%s') is not true", strings.Join(list, ", "), LastSince)
}

// conjunction returns the SQL of whether all conditions are true, and another one, unless that is "".
func conjunction(list []Expr, also string) string {
	var parts []string
	for _, e := range list {
		parts = append(parts, "("+e.SQL+") is true")
	}
	if also != "" {
		parts = append(parts, also)
	}
	if len(parts) == 0 {
		return "true"
	}
	return "(" + strings.Join(parts, " and ") + ")"
}

// DoneSQL returns the SQL of whether the expected thing has happened at an instant, which is given as SQL. It is never
// null.
func (f Facts) DoneSQL(now string) string {
	var parts []string
	for _, e := range f.Done {
		if e.Type.When() {
			parts = append(parts, fmt.Sprintf("coalesce(%s <= %s, false)", e.ends(f.Zone), now))
			continue
		}
		parts = append(parts, "("+e.SQL+") is true")
	}
	if len(parts) == 0 {
		return "false"
	}
	return "(" + strings.Join(parts, " or ") + ")"
}

// Noted reports whether triggers note something of rows: when columns change, or when rows are paused.
func (f Facts) Noted() bool { return len(f.Changed)+len(f.Pause) > 0 }

// PausedSQL returns the SQL of whether the clock of the row stands still. It is never null.
func (f Facts) PausedSQL() string { return Facts{Done: f.Pause}.DoneSQL("") }

// RowDoneSQL returns what the row alone says of DoneSQL. It is false if other rows decide.
func (f Facts) RowDoneSQL(now string) string { return f.row().DoneSQL(now) }

// DoneNowSQL returns the SQL of whether a condition of Done is true, which does not say since when. It is never null.
func (f Facts) DoneNowSQL() string {
	f.Done = slices.DeleteFunc(slices.Clone(f.Done), func(e Expr) bool { return e.Type.When() })
	return f.DoneSQL("")
}

// DoneAtSQL returns the SQL of the earliest instant at which the expected thing happens. It is null if no expression
// of Done has an instant before LastSince.
func (f Facts) DoneAtSQL() string {
	var list []string
	for _, e := range f.Done {
		if e.Type.When() {
			list = append(list, e.ends(f.Zone))
		}
	}
	if len(list) == 0 {
		return "null::timestamptz"
	}
	const last = "timestamptz '" + LastSince + "'"
	return fmt.Sprintf("nullif(least(%s, %s), %[2]s)", strings.Join(list, ", "), last)
}

// RowDoneAtSQL returns what the row alone says of DoneAtSQL: an instant that is not earlier, and null if only other
// rows can tell.
func (f Facts) RowDoneAtSQL() string { return f.row().DoneAtSQL() }
