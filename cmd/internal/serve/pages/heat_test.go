package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/slots"
)

// Thousands of cells are more than any other list of a page.
func TestTheHeatMapDrawsEveryMissedSlot(t *testing.T) {
	t.Parallel()
	var days []board.LedgerDay
	missed := 0
	for day := time.Date(2030, time.March, 1, 0, 0, 0, 0, time.UTC); len(days) < ledgerDays; day = day.AddDate(0, 0, 1) {
		cells := make([]board.Cell, 96)
		for i := range cells {
			cells[i] = board.Cell{State: slots.StateMissed, Missed: 1}
			missed++
		}
		days = append(days, board.LedgerDay{Day: day.Format(time.DateOnly), Cells: cells})
	}
	var html strings.Builder
	if err := newTemplates().execute(&html, "", time.Time{}, "ledger", "heat", newHeat(days)); err != nil {
		t.Fatal(err)
	}
	if drawn := strings.Count(html.String(), `</title><rect class="heat-missed"`); drawn != missed {
		t.Errorf("%d of %d missed slots are drawn", drawn, missed)
	}
}
