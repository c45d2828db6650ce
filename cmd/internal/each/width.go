package each

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/plain"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Width asks the database for the width of its slots, and returns the name of the database, too.
// Of several stores it returns the smallest width: at most of those runs, a store with wider slots
// has nothing to do.
func Width(ctx context.Context, f *factory.Factory) (width time.Duration, from string, err error) {
	if f.One() != nil {
		return leastWidth(ctx, f)
	}
	err = database.With(ctx, f, func(_ *sqlx.DB, setting pgsql.Setting) error {
		view, err := database.NewView(f, setting)
		width, from = setting.Grid.Width(), "the database "+strings.Map(plain.Printable, view.String())
		return err
	})
	return width, from, err
}

// leastWidth returns the smallest width of the stores that answer, and the first store that has it.
// If no store answers, the error says why.
func leastWidth(ctx context.Context, f *factory.Factory) (width time.Duration, from string, err error) {
	var mu sync.Mutex
	widths := map[string]time.Duration{}
	parts, err := visit(ctx, f, func(ctx context.Context, f *factory.Factory) error {
		w, _, err := Width(ctx, f)
		mu.Lock()
		defer mu.Unlock()
		widths[f.Scope().Store] = w
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
		f.Log().WarnContext(ctx, "not every store was asked for the width of its slots", "error", err)
		err = nil
	}
	return width, from, err
}
