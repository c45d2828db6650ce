// Package devdbcmd has the commands of the private PostgreSQL: dev-db start, stop, status, url and
// demo.
package devdbcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/embedded"
)

// NewCmdDevDB returns the command dev-db, with those below it.
func NewCmdDevDB(f *factory.Factory) *cobra.Command {
	c := cli.Group("dev-db", "Start, stop and find the private PostgreSQL, and run a demo on it",
		f.WithOutput(newCmdServer(f, "start", "Start the private PostgreSQL, and create it if it is missing",
			func(ctx context.Context, s *embedded.Server) error {
				return database.StartPrivate(ctx, s, f.Log())
			})),
		f.WithOutput(newCmdServer(f, "stop", "Stop the private PostgreSQL; its data stays",
			func(ctx context.Context, s *embedded.Server) error {
				return s.Stop(ctx)
			})),
		f.WithOutput(newCmdServer(f, "status", "Show whether the private PostgreSQL runs, and its directory", nil)),
		newCmdURL(f), newCmdDemo(f))
	c.Long = `The private PostgreSQL serves commands whose database.url is embedded:, and at a terminal commands without
a database.url. They start it. It runs until "dev-db stop" or a reboot. Only this user and root can reach it: it listens
on a unix socket.

Its role and its database are called prescient. Write public.orders: an unqualified table lands in schema prescient,
which holds the tables of prescient. "dev-db url --superuser" names a role that
may create databases.

It is in $XDG_DATA_HOME/prescient/postgres if XDG_DATA_HOME is set, else for root in /var/lib/prescient/postgres. Else
it is in ~/.local/share/prescient/postgres, or on macOS in ~/Library/Application Support/prescient/postgres. sudo drops
XDG_DATA_HOME.`
	return c
}

// newCmdServer returns a command that acts on the server and shows its status.
func newCmdServer(
	f *factory.Factory, name, short string, act func(context.Context, *embedded.Server) error,
) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: "  prescient dev-db " + name, Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := embedded.Open(embedded.Config{})
			if err != nil {
				return err
			}
			warnUnused(c.Context(), f)
			if act != nil {
				if err := act(c.Context(), server); err != nil {
					return err
				}
			}
			return printServer(c.Context(), f, server)
		},
	}
}

func warnUnused(ctx context.Context, f *factory.Factory) {
	if !database.Private(f) {
		f.Log().WarnContext(ctx, "commands do not use the private PostgreSQL: database.url is set", "origin",
			f.Origin("database.url"))
	}
}

func newCmdURL(f *factory.Factory) *cobra.Command {
	var superuser bool
	c := f.WithOutput(&cobra.Command{
		Use: "url", Short: "Print the URL of the private PostgreSQL, and nothing else",
		Example: `  psql "$(prescient dev-db url)"
  psql "$(prescient dev-db url --superuser)" -c "create role reports"`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := embedded.Open(embedded.Config{})
			if err != nil {
				return err
			}
			if err := server.CheckSocket(); err != nil { // a client of the URL cannot check it
				return err
			}
			warnUnused(c.Context(), f)
			view := urlView{server.URL()}
			if superuser {
				view.URL = server.SuperuserURL()
			}
			return f.Say(view, view.URL)
		},
	})
	c.Flags().BoolVar(&superuser, "superuser", false,
		"of the role that may do anything, such as make roles; commands do not use it")
	return c
}

// urlView is the address of the private server, as JSON.
type urlView struct {
	URL string `json:"url"` // to connect with
}

// serverView is embedded.Status as JSON.
type serverView struct {
	embedded.Status
	URL string `json:"url"` // to connect with; empty: the server does not run
}

func printServer(ctx context.Context, f *factory.Factory, server *embedded.Server) error {
	status, err := server.Status(ctx)
	if err != nil {
		return err
	}
	view := serverView{status, server.URL()}
	return f.Say(view, status.String(), "url      "+view.URL)
}
