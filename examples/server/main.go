// Command server is an HTTP server that runs its slots itself, beside cron or without it.
// docs/server.md explains it, and how a server runs rules and schedules, too.
//
//	go build -o bin/server ./examples/server
//	export PRESCIENT_DATABASE_URL=postgres://localhost/shop
//	bin/server migrate up
//	psql "$PRESCIENT_DATABASE_URL" -f examples/server/tables.sql
//	bin/server &
//	curl -d id=42 localhost:8080/orders
//
// With arguments it is the command line, as in every binary with checks: cron calls "server run
// --catch-up", and the operator calls "server status".
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	pgsql "github.com/prescient-go/prescient/sql"
)

func main() {
	if len(os.Args) > 1 {
		cmd.Main(checks())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // so that a second signal ends the process
	if err := start(ctx); err != nil {
		log.Fatal(err)
	}
}

// start connects to the database, listens and serves until ctx ends.
func start(ctx context.Context) error {
	db, err := pgsql.Open(ctx, os.Getenv("PRESCIENT_DATABASE_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	client, err := jobs.NewClient(ctx, db, jobs.Config{})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(os.Getenv("LISTEN"), "localhost:8080"))
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "listening", "address", listener.Addr().String())
	server := &http.Server{Handler: handler(db, client), ReadTimeout: 30 * time.Second}
	return serve(ctx, server, listener, db)
}

// serve answers requests and runs slots until ctx ends or one of the two fails. It returns when
// both have stopped.
func serve(ctx context.Context, server *http.Server, listener net.Listener, db *sqlx.DB) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return daemon.Run(ctx, daemon.Config{Runner: slots.Config{DB: db, Registry: checks()}})
	})
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return end(context.WithoutCancel(ctx), server)
	})
	return group.Wait()
}

// end gives requests 20 s to finish, and then closes their connections.
func end(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		return server.Close()
	}
	return nil
}
