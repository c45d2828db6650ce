package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Destination is where a forwarder sends events of the outbox. Several may have different types.
type Destination struct {
	// Name is the name of the consumer in the outbox: 1 to 63 lower-case letters, digits, _ and -.
	Name string `mapstructure:"name"`

	// URL is as Events.Destination, but not outbox:. It must be set.
	URL Endpoint `mapstructure:"url"`

	// Types are the types of the events, with * for any text, such as order.*. Default: all but messages to people.
	Types Types `mapstructure:"types"`
}

// Types are types of events, separated by commas, with * for any text.
type Types string

// List returns the types.
func (t Types) List() (list []string) {
	for _, one := range strings.Split(string(t), ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// MainDestination is the name of the consumer of Events.Destination.
const MainDestination = "destination"

// AllDestinations returns Events.Destination, unless it is the outbox, and Destinations.
func (c Config) AllDestinations() (list []Destination) {
	if to := c.Events.Destination; to.Reveal() != "outbox:" {
		list = append(list, Destination{Name: MainDestination, URL: to})
	}
	return append(list, c.Destinations...)
}

// named holds the sections whose keys are names, and how such a section is written. Only the file can set them.
var named = map[string]string{
	"events.destinations": `"events: {destinations: {warehouse: {url: https://example.com/hook, types: [order.*]}}}" ` +
		"in YAML",
	"receivers": `"receivers: {ops: slack://hooks.slack.com/services/T0/B0/secret}" in YAML`,
}

// destinationRules has one entry for every setting of a Destination.
var destinationRules = map[string]rule[Destination]{
	"name": {
		"1 to 63 lower-case letters, digits, _ and -, and not " + MainDestination + ", which is events.destination",
		func(d Destination) bool {
			return storeName.MatchString(d.Name) && len(d.Name) <= maxName && d.Name != MainDestination
		},
	},
	"url": {
		"a URL such as https://example.com/hook or kafka://host:9092/topic",
		func(d Destination) bool { return d.URL.Reveal() != "outbox:" && isEndpoint(d.URL) },
	},
	"types": {"types of events separated by commas, such as order.*", anyValue[Destination]},
}

// readTables reads a section whose keys are names, such as "events.destinations: {warehouse: {url: ...}}". A value that
// is no table is the URL.
func readTables[T any](
	s sources, section string, list *[]T, defaults T, rules map[string]rule[T],
) (entries []Entry, problems []error) {
	value := s.Get(section)
	tables, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, []error{fmt.Errorf("set %s from file %s: want a table of names: %s", section, s.file, named[section])}
	}
	for i, name := range slices.Sorted(maps.Keys(tables)) {
		table, ok := tables[name].(map[string]any)
		if !ok {
			table = map[string]any{"url": tables[name]}
		}
		table = maps.Clone(table)
		table["name"] = name
		item := defaults
		problems = append(problems, fill(s, &item, table, entryRef{section, i + 1, name}, rules)...)
		entries = append(entries, itemEntries(s, section, &item, table)...)
		*list = append(*list, item)
	}
	return entries, problems
}
