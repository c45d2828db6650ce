package config

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"github.com/spf13/pflag"
)

// Loaded is a configuration with its sources.
type Loaded struct {
	// Config is the configuration of the program. Every value is valid.
	Config Config

	// File is the path from the root of the configuration file that was read; empty: none.
	File string

	// Entries is every setting, sorted by key, for people to see.
	Entries []Entry

	// Skipped are the files in default places that were not read, because another user may have
	// written them.
	Skipped []Skipped

	// Warnings are sentences for the log. Each names a skipped file, or an environment variable
	// that starts with PRESCIENT_ but is not a setting, such as a misspelt one.
	Warnings []string
}

// Entry is one setting as prescient config show prints it.
type Entry struct {
	// Key is the setting's name, as in run.page, or http_jobs[order.unshipped].url of a list.
	Key string `json:"key"`

	// Value is its value, with secrets masked (see [Redact]): also the path and the query of an http or https URL.
	Value string `json:"value"`

	// Origin is the source of the value: "default", "file /path", "environment
	// PRESCIENT_RUN_WORKERS" or "flag --workers".
	Origin string `json:"origin"`
}

// Load reads all settings from the sources that the package documentation lists. From fs it takes
// the flags that [Flags], [RunFlags] and the like registered. A flag that fs lacks counts as not
// set, and fs may be nil.
//
// The error joins all problems, one a line. Each names the key, its source and the rule, and none
// shows a password. With an error, only Warnings is filled.
func Load(fs *pflag.FlagSet) (Loaded, error) { return load(fs, searchPaths()) }

func load(fs *pflag.FlagSet, places []string) (Loaded, error) {
	loaded := Loaded{Config: Default(), Warnings: unknownVariables(os.Environ())}
	from, problems := open(setFlags(fs), places)
	loaded.File, loaded.Skipped = from.file, from.skipped
	for _, s := range from.skipped {
		loaded.Warnings = append(loaded.Warnings, s.warning())
	}
	for key, field := range fields(&loaded.Config) {
		problems = append(problems, from.read(key, field, &loaded.Config))
		loaded.Entries = append(loaded.Entries, Entry{key, show(field), from.origin(key)})
	}
	entries, more := from.lists(&loaded.Config)
	loaded.Entries = append(loaded.Entries, entries...)
	if err := errors.Join(append(problems, more...)...); err != nil {
		return Loaded{Warnings: loaded.Warnings}, err
	}
	slices.SortFunc(loaded.Entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return loaded, nil
}
