package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/sql/embedded"
)

func newDevDB(a *App) *cobra.Command {
	c := cli.Group("dev-db", "Start, stop and find the private PostgreSQL, and run a demo on it",
		a.withOutput(devDBCommand(a, "start", "Start the private PostgreSQL, making it at the first time", a.start)),
		a.withOutput(devDBCommand(a, "stop", "Stop the private PostgreSQL; its data stays", func(ctx context.Context, s *embedded.Server) error {
			return s.Stop(ctx)
		})),
		a.withOutput(devDBCommand(a, "status", "Show whether the private PostgreSQL runs, and its directory", nil)),
		newDevDBURL(a), newDemo(a))
	c.Long = `The private PostgreSQL serves commands whose database.url is embedded:, and at a terminal commands without
a database.url. They start it. It runs until "dev-db stop" or a reboot. Only this user and root can reach it: it listens
on a unix socket.`
	return c
}

// devDBCommand acts on the server and shows its status.
func devDBCommand(a *App, name, short string, act func(context.Context, *embedded.Server) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: "  prescient dev-db " + name, Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := embedded.Open(embedded.Config{})
			if err != nil {
				return err
			}
			a.warnUnused(c.Context())
			if act != nil {
				if err := act(c.Context(), server); err != nil {
					return err
				}
			}
			return printServer(c.Context(), a, server)
		},
	}
}

func (a *App) warnUnused(ctx context.Context) {
	if !a.private() {
		a.log.WarnContext(ctx, "commands do not use the private PostgreSQL: database.url is set", "origin", a.origin("database.url"))
	}
}

func newDevDBURL(a *App) *cobra.Command {
	var superuser bool
	c := a.withOutput(&cobra.Command{
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
			a.warnUnused(c.Context())
			view := struct {
				URL string `json:"url"`
			}{server.URL()}
			if superuser {
				view.URL = server.SuperuserURL()
			}
			return a.print(view, func() error { return a.lines(view.URL) })
		},
	})
	c.Flags().BoolVar(&superuser, "superuser", false, "of the role that may do anything, such as make roles; commands do not use it")
	return c
}

// serverView is embedded.Status as JSON.
type serverView struct {
	Running bool   `json:"running"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	URL     string `json:"url"`
	Data    string `json:"data"`
	Socket  string `json:"socket"`
	Log     string `json:"log"`
}

func printServer(ctx context.Context, a *App, server *embedded.Server) error {
	status, err := server.Status(ctx)
	if err != nil {
		return err
	}
	view := serverView{status.Running, status.PID, status.Version, server.URL(), status.Data, status.Socket, status.Log}
	return a.print(view, func() error {
		return a.lines(status.String(), "url      "+view.URL)
	})
}
