package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/internal/spoken"
)

// prefix starts the name of every environment variable that is a setting.
const prefix = "PRESCIENT_"

// fileVariable names the configuration file.
const fileVariable = prefix + "CONFIG"

// variable returns the environment variable of a key: PRESCIENT_RUN_JOB_NAME for run.job_name.
func variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// ofChecks lists the variables that a check of a spool gets. If a check calls prescient, it passes
// them on.
var ofChecks = []string{"SLOT", "NAME", "CHECK_COUNT", "ERROR_COUNT"}

// unknownVariables returns a warning for each variable of an environment, as os.Environ returns it,
// that has the prefix but is not a setting. It may be misspelt, or belong to another program, so it
// is not an error.
func unknownVariables(environ []string) []string {
	known := map[string]bool{fileVariable: true}
	for key := range fields(new(Config)) {
		known[variable(key)] = true
	}
	for _, name := range ofChecks {
		known[prefix+name] = true
	}
	var warnings []string
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, prefix+"TEST_") && !known[name] {
			warnings = append(warnings, "environment variable "+name+" is no setting and is ignored"+
				cmp.Or(meant(name, known), "; prescient config show lists the settings"))
		}
	}
	slices.Sort(warnings)
	return warnings
}

// meant asks whether the setting was meant that a variable names without its section, PRESCIENT_SCHEMA for
// PRESCIENT_DATABASE_SCHEMA, or one with a similar name. Returns an empty text if it finds neither.
func meant(name string, known map[string]bool) string {
	var full []string
	for other := range known {
		if strings.HasSuffix(other, strings.TrimPrefix(name, strings.TrimSuffix(prefix, "_"))) {
			full = append(full, other)
		}
	}
	if len(full) == 1 {
		return spoken.DidYouMean(full)
	}
	return spoken.Meant(name, slices.Collect(maps.Keys(known)))
}
