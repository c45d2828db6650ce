package checks

import (
	"io"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestARunnerAndItsPoolAreAsTheSettingsSay(t *testing.T) {
	t.Parallel()
	f := factory.New(factory.Config{Name: "shop", Err: io.Discard, Registry: jobs.NewRegistry()})
	settings := config.Default()
	settings.Database.URL = config.NewURL(pgtest.URL(t))
	settings.Run.Connections, settings.Run.StartTolerance = 20, 0
	f.Use(config.Loaded{Config: settings})
	db, err := database.Open(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if got := db.Stats().MaxOpenConnections; got != 25 {
		t.Errorf("the pool has %d connections, want 25", got)
	}
	cfg := (&Bound{DB: db, Registry: f.Registry}).Runner(f, nil)
	if cfg.Connections != 20 || cfg.Early >= 0 || cfg.Grace != settings.Run.Grace {
		t.Errorf("the runner's configuration: %+v", cfg)
	}
}
