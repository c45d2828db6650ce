package cmd

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	pgsql "github.com/prescient-go/prescient/sql"
)

// module is this one, a dependency in a team's own binary.
const module = "github.com/prescient-go/prescient"

// versionFlag gives the root --version. It needs no configuration.
func versionFlag(root *cobra.Command) {
	v := readVersion()
	root.Version = v.prescient
	root.SetVersionTemplate(v.String() + "\n")
	// cobra's own would take -v
	root.Flags().Bool("version", false,
		"show the version of prescient, of the schema and of Go, and the revision of the binary with its date")
}

// version describes the build of a binary.
type version struct {
	prescient, golang string
	revision, date    string // of the binary's own source; empty when they are not known
	modified          bool   // the source was changed since that revision
}

func (v version) String() string {
	text := fmt.Sprintf("prescient %s, schema %d, %s", v.prescient, pgsql.SchemaVersion, v.golang)
	if v.revision != "" {
		text += ", revision " + v.revision
	}
	if v.date != "" {
		text += " of " + v.date
	}
	if v.modified {
		text += ", modified since"
	}
	return text
}

func readVersion() version {
	v := version{prescient: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.golang = info.GoVersion
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			v.prescient = m.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.revision = s.Value
		case "vcs.time":
			v.date = s.Value
		case "vcs.modified":
			v.modified = s.Value == "true"
		}
	}
	return v
}
