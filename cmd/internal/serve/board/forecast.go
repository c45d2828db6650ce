package board

import (
	"context"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/forecast"
)

// forecastAge is the maximum age of a forecast that takes long. Other forecasts are as new as the overview.
const forecastAge = 2 * time.Minute

// Expect makes the forecast of the next 24 hours, or waits for one that is being made. Overview and
// Slot include a finished forecast, and wait only a moment for one.
func (b *Board) Expect(ctx context.Context) error {
	_, err := b.cache.get(ctx, "forecast", 0, forecastAge, b.readForecast)
	return err
}

func (s *source) readForecast(ctx context.Context) (any, error) {
	f, err := forecast.Compute(ctx, forecast.Config{
		DB: s.cfg.DB, Schema: s.cfg.Schema, Now: s.cfg.Now, For: day,
		Registry: s.cfg.Runner.Registry,
	})
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "there is no forecast", "error", err)
	}
	return f, err
}

// forecast returns the last forecast, and whether there is one.
func (s *source) forecast(ctx context.Context) (forecast.Forecast, bool) {
	f, is := s.cache.latest(ctx, "forecast", overviewAge, forecastAge, s.readForecast).(forecast.Forecast)
	return f, is
}

// addForecast adds the forecast to the coming slots of an overview.
func (v *Overview) addForecast(f forecast.Forecast) {
	v.Axis = expected(v.Axis, f, v.CurrentSlot)
	v.Expected = append([]forecast.Finding{}, f.Findings...)
}

// expected returns cells with the forecast of their coming slots. It copies the cells, which are shared.
func expected(cells []Cell, f forecast.Forecast, current time.Time) []Cell {
	cells = slices.Clone(cells)
	for _, s := range f.Slots {
		if c := cellOf(cells, s.Slot); c != nil && s.Slot.After(current) {
			c.expect(s, f.Grid.Width())
		}
	}
	return cells
}

// expect adds the forecast of a slot.
func (c *Cell) expect(s forecast.Slot, width time.Duration) {
	if c.Forecast == nil {
		c.Forecast = &Forecast{}
	} else {
		c.Forecast = new(*c.Forecast)
	}
	c.Forecast.Rows += s.Rows
	c.Forecast.Took = max(c.Forecast.Took, roundedTook(s))
	c.TooLong = c.TooLong || s.Ends() > width
}

// roundedTook returns how long the run of a slot takes, in whole milliseconds.
func roundedTook(s forecast.Slot) duration.Text {
	return duration.Text(time.Duration(s.Took).Round(time.Millisecond))
}
