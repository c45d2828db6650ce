// Package rulesession has the settings with which SQL of a rule means the same in every session.
package rulesession

import (
	"fmt"
	"slices"
	"strings"
)

// settings decide what a text of SQL means and how a value becomes a text. Each has the same value when the
// server understands a rule, when a trigger reads a row, and when a check, an apply or a test reads the table.
// So a condition means the same for all of them, whatever an application sets for its session.
var settings = [][2]string{
	{"timezone", "'UTC'"}, // the first one, see Trigger
	abbreviations,
	{"datestyle", "'ISO, MDY'"},
	{"intervalstyle", "'postgres'"},
	{"extra_float_digits", "1"},
	{"bytea_output", "'hex'"},
	{"xmlbinary", "'base64'"},
	{"xmloption", "'content'"},
	{"lc_monetary", "'C'"},
	{"lc_numeric", "'C'"},
	{"lc_time", "'C'"},
	{"default_text_search_config", "'pg_catalog.simple'"},
	{"array_nulls", "on"},
	{"transform_null_equals", "off"},
	{"quote_all_identifiers", "off"},
	{"standard_conforming_strings", "on"},
}

// abbreviations says what EST is. To set it, even to the value that it has, makes the server read a file: that takes 55
// microseconds.
var abbreviations = [2]string{"timezone_abbreviations", "'Default'"}

// UsualAbbreviations is an SQL condition: the setting that Trigger lacks has its value.
var UsualAbbreviations = fmt.Sprintf("current_setting('%s') = %s", abbreviations[0], abbreviations[1])

// names is the search_path of reading transactions and triggers. A text of an applied rule names other schemas itself.
const names = "search_path = pg_catalog, pg_temp"

// interpreted lets the server compile nothing. For the few rows of a trigger or a page, that takes longer than it
// saves.
const interpreted = "jit = off"

// Understand is SQL that prepares a transaction to understand the texts of a rule. It leaves the
// search_path of the session, by which a file may name functions.
var Understand = setLocal()

// Read is SQL that prepares a transaction to read the table of a rule. A table whose row security
// concerns the login is refused: rows that the login may not see would look gone.
var Read = "set local " + names + "; set local " + interpreted + "; set local row_security = off; " + setLocal()

// Function has the settings of a function that reads a row for a trigger, a line for each.
var Function = Trigger(false) + "\n" + each("set %s = %s", "\n", abbreviations)

// Trigger returns those of a trigger's function, which each write pays for with 0.7 microseconds for each: without the
// one that costs more than all else. Such a function leaves the row to one with Function unless UsualAbbreviations is
// true. plain tells that what it computes depends on the time zone alone.
func Trigger(plain bool) string {
	list := slices.DeleteFunc(slices.Clone(settings), func(s [2]string) bool { return s == abbreviations })
	if plain {
		list = list[:1]
	}
	return "set " + names + "\nset " + interpreted + "\n" + each("set %s = %s", "\n", list...)
}

func setLocal() string { return each("set local %s = %s", "; ", settings...) }

func each(format, sep string, settings ...[2]string) string {
	list := make([]string, len(settings))
	for i, s := range settings {
		list[i] = fmt.Sprintf(format, s[0], s[1])
	}
	return strings.Join(list, sep)
}
