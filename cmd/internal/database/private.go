package database

import (
	"context"
	"log/slog"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/sql/embedded"
)

// isPrivate reports whether the database of the settings is the private PostgreSQL.
func isPrivate(database config.Database) bool {
	url := database.URL.Reveal()
	return url == "" || url == config.Embedded
}

// startedURL returns the URL of the database of the settings. If that is the private PostgreSQL, it
// starts it.
func startedURL(ctx context.Context, database config.Database, log *slog.Logger) (string, error) {
	if !isPrivate(database) {
		return database.URL.Reveal(), nil
	}
	server, err := embedded.Open(embedded.Config{})
	if err != nil {
		return "", err
	}
	return server.URL(), StartPrivate(ctx, server, log)
}

// StartPrivate starts the private PostgreSQL, unless it runs. It logs that it makes the data directory the
// first time.
func StartPrivate(ctx context.Context, server *embedded.Server, log *slog.Logger) error {
	status, err := server.Status(ctx)
	if err != nil || status.Running {
		return err
	}
	if status.Version == "" {
		log.InfoContext(ctx, "making a private PostgreSQL", "data", status.Data)
	}
	return server.Start(ctx)
}
