package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/plain"
	pgsql "github.com/prescient-go/prescient/sql"
)

// askWidth asks the database for the width of its slots, and returns the name of the database, too.
// Of several stores it returns the smallest width: at most of those runs, a store with wider slots
// has nothing to do.
func (a *App) askWidth(ctx context.Context) (width time.Duration, from string, err error) {
	if a.scope.Many {
		return a.leastWidth(ctx)
	}
	err = a.withDB(ctx, func(_ *sqlx.DB, setting pgsql.Setting) error {
		view, err := a.newDatabaseView(setting)
		width, from = setting.Grid.Width(), "the database "+strings.Map(plain.Printable, view.String())
		return err
	})
	return width, from, err
}

// leastWidth returns the smallest width of the stores that answer, and the first store that has it.
// If no store answers, the error says why.
func (a *App) leastWidth(ctx context.Context) (width time.Duration, from string, err error) {
	var mu sync.Mutex
	widths := map[string]time.Duration{}
	parts, err := a.visitAll(ctx, func(ctx context.Context, a *App) error {
		w, _, err := a.askWidth(ctx)
		mu.Lock()
		defer mu.Unlock()
		widths[a.scope.Store] = w
		return err
	})
	for _, p := range parts {
		if w := widths[p.store]; w > 0 && (width == 0 || w < width) {
			width, from = w, "store "+p.store
		}
		if p.what != "" {
			err = errors.Join(err, fmt.Errorf("store %s: %s", p.store, p.what))
		}
	}
	if width > 0 && err != nil {
		a.log.WarnContext(ctx, "not every store was asked for the width of its slots", "error", err)
		err = nil
	}
	return width, from, err
}
