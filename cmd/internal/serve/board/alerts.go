package board

import (
	"context"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/alert"
)

// Alerts returns the findings that alerts.receiver was told of, and those that are silenced.
func (b *Board) Alerts(ctx context.Context, acted int64) (Alerts, error) {
	return read(ctx, b.source, "alerts", acted, pageAge, func(ctx context.Context, r *reader) (v Alerts, err error) {
		list, err := alert.Read(ctx, r, r.schema)
		v.Alerts = view.NewAlerts(list, r.now())
		return v, err
	})
}
