package cmd

import (
	"fmt"
	"runtime/debug"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	pgsql "github.com/prescient-go/prescient/sql"
)

// module is this one, a dependency in a team's own binary.
const module = "github.com/prescient-go/prescient"

func newVersion(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:         "version",
		Short:       "Show the version of prescient, of Go and of the schema, and the revision of the binary",
		Example:     `  prescient version`,
		Annotations: map[string]string{needsNoConfig: "yes"},
		Args:        exactly(),
		RunE: func(*cobra.Command, []string) error {
			view := newVersionView()
			return a.print(view, func() error {
				return a.table(nil, table.Row{"prescient", view.Version}, table.Row{"schema", view.Schema},
					table.Row{"go", view.Go}, table.Row{"revision", view.Revision}, table.Row{"modified", view.Modified})
			})
		},
	})
}

// versionFlag gives the root --version, for who looks for it there.
func versionFlag(root *cobra.Command) {
	view := newVersionView()
	root.Version = view.Version
	root.SetVersionTemplate(fmt.Sprintf("prescient %s, schema %d, %s\n", view.Version, view.Schema, view.Go))
	root.Flags().Bool("version", false, "show the version of prescient, of the schema and of Go") // cobra's own would take -v
}

type versionView struct {
	Version  string `json:"version"`
	Schema   int    `json:"schema"`
	Go       string `json:"go"`
	Revision string `json:"revision"` // of the binary's own source; empty when it is not known
	Modified bool   `json:"modified"` // the source was changed since that revision
}

func newVersionView() versionView {
	view := versionView{Version: "unknown", Schema: pgsql.SchemaVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return view
	}
	view.Go = info.GoVersion
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			view.Version = m.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			view.Revision = s.Value
		case "vcs.modified":
			view.Modified = s.Value == "true"
		}
	}
	return view
}
