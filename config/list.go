package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/internal/spoken"
)

// lists holds the sections that are lists of tables, and how such a list is written. Only the file
// can set them. The names of jobs are values there, because keys are split at dots and lose their
// capitals.
var lists = map[string]string{
	"http_jobs": `[[http_jobs]] in TOML, "http_jobs: [{name: order.unshipped, url: https://example.com/checks}]" in YAML`,
	"stores":    `[[stores]] in TOML, "stores: [{name: shop, url: postgres://localhost/shop}]" in YAML`,
	"sql_jobs":  `[[sql_jobs]] in TOML, "sql_jobs: [{name: order.unshipped, query: select ...}]" in YAML`,
}

// lists reads the sections that are lists into c.
func (s sources) lists(c *Config) (entries []Entry, problems []error) {
	entries, problems = readList(s, "http_jobs", &c.HTTPJobs, defaultHTTPJob, httpRules)
	more, wrong := readList(s, "sql_jobs", &c.SQLJobs, defaultSQLJob, sqlRules)
	stores, bad := readList(s, "stores", &c.Stores, Store{}, storeRules)
	destinations, refused := readTables(s, "events.destinations", &c.Destinations, Destination{}, destinationRules)
	receivers, unread := readTables(s, "receivers", &c.Receivers, defaultReceiver, receiverRules)
	return slices.Concat(entries, more, stores, destinations, receivers), slices.Concat(problems, wrong, bad,
		refused, unread, s.wrongAddresses(c), s.duplicateJobs(c), s.duplicateStores(c))
}

// readList reads the tables of a section, each over the defaults.
func readList[T any](
	s sources, section string, list *[]T, defaults T, rules map[string]rule[T],
) (entries []Entry, problems []error) {
	value := s.Get(section)
	tables, ok := value.([]any)
	if !ok && value != nil {
		return nil, []error{fmt.Errorf("set %s from file %s: want a list of tables: %s", section, s.file, lists[section])}
	}
	for i, value := range tables {
		item := defaults
		if table, ok := value.(map[string]any); ok {
			problems = append(problems, fill(s, &item, table, entryRef{section, i + 1, table["name"]}, rules)...)
			entries = append(entries, itemEntries(s, section, &item, table)...)
		} else {
			problems = append(problems,
				fmt.Errorf("set entry %d of %s from file %s: want a table: %s", i+1, section, s.file, lists[section]))
		}
		*list = append(*list, item)
	}
	return entries, problems
}

// fill sets the settings of one table, and checks each by its rule. A missing setting without a
// default breaks its rule.
func fill[T any](s sources, item *T, table map[string]any, at entryRef, rules map[string]rule[T]) (problems []error) {
	var known []string
	for name := range settings(item) {
		known = append(known, name)
	}
	misspelt := map[string]bool{}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if slices.Contains(known, name) {
			continue
		}
		for _, meant := range spoken.Nearest(name, known) {
			misspelt[meant] = true
		}
		unknown = append(unknown, fmt.Errorf("set %s of %s from file %s: %s", name, at, s.file,
			unknownKey(name, known, at.section+" has "+strings.Join(known, ", "))))
	}
	for name, field := range settings(item) {
		value, rule := table[name], rules[name]
		switch {
		case value == nil && misspelt[name]:
		case value == nil && !rule.holds(*item):
			problems = append(problems, fmt.Errorf("set %s of %s from file %s: missing, want %s", name, at, s.file, rule.want))
		case value != nil && (!set(field, value) || !rule.holds(*item)):
			problems = append(problems,
				fmt.Errorf("set %s of %s from file %s: got %s, want %s", name, at, s.file, printable(field, value), rule.want))
		}
	}
	return append(problems, unknown...)
}

// itemEntries returns the entries of one table, under the name of its job.
func itemEntries(s sources, section string, item any, table map[string]any) (entries []Entry) {
	for name, field := range settings(item) {
		origin := "default"
		if table[name] != nil {
			origin = "file " + s.file
		}
		entries = append(entries, Entry{fmt.Sprintf("%s[%v].%s", section, table["name"], name), show(field), origin})
	}
	return entries
}

// duplicateJobs returns an error for each entry whose job has an earlier entry.
func (s sources) duplicateJobs(c *Config) (problems []error) {
	first := map[string]entryRef{}
	bind := func(at entryRef) {
		name, _ := at.name.(string)
		if before, taken := first[name]; taken && name != "" {
			problems = append(problems,
				fmt.Errorf("set name of %s from file %s: the name is bound by %s already, and a job has one binding",
					at, s.file, before))
			return
		}
		first[name] = at
	}
	for i, job := range c.HTTPJobs {
		bind(entryRef{"http_jobs", i + 1, job.Name})
	}
	for i, job := range c.SQLJobs {
		bind(entryRef{"sql_jobs", i + 1, job.Name})
	}
	return problems
}

// entryRef identifies a table of a list in messages.
type entryRef struct {
	section string
	number  int // the first one is 1
	name    any // as the file has it
}

func (r entryRef) String() string {
	if r.name == nil {
		return fmt.Sprintf("%s entry %d", r.section, r.number)
	}
	return fmt.Sprintf("%s entry %d (%v)", r.section, r.number, r.name)
}
