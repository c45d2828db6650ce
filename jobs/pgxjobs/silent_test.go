package pgxjobs_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs/pgxjobs"
)

func TestAHostThatDoesNotAnswerIsAFailureForAWhile(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig("postgres://me@127.0.0.1:1/shop")
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{Deadline: time.Now().Add(-time.Second)}).DialContext(ctx, network, address)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := pgxjobs.Open(pool)
	defer func() { _ = db.Close() }()
	if _, err := db.Connx(t.Context()); !pg.IsTransient(err) {
		t.Errorf("the server does not answer: %v", err)
	}
}
