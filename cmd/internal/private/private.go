// Package private finds and starts the private PostgreSQL for commands whose settings name no other
// database. It knows no command.
package private

import (
	"context"
	"log/slog"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/sql/embedded"
)

// Is reports whether the database of the settings is the private PostgreSQL.
func Is(database config.Database) bool {
	url := database.URL.Reveal()
	return url == "" || url == config.Embedded
}

// URL returns the URL of the database of the settings. If that is the private PostgreSQL, URL
// starts it.
func URL(ctx context.Context, database config.Database, log *slog.Logger) (string, error) {
	if !Is(database) {
		return database.URL.Reveal(), nil
	}
	server, err := embedded.Open(embedded.Config{})
	if err != nil {
		return "", err
	}
	return server.URL(), Start(ctx, server, log)
}

// Start starts the private PostgreSQL, unless it runs. It logs that it makes the data directory the
// first time.
func Start(ctx context.Context, server *embedded.Server, log *slog.Logger) error {
	status, err := server.Status(ctx)
	if err != nil || status.Running {
		return err
	}
	if status.Version == "" {
		log.InfoContext(ctx, "making a private PostgreSQL", "data", status.Data)
	}
	return server.Start(ctx)
}
