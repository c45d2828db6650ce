package rule

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
)

func TestAnEventSaysHowOftenItsStepRepeatsForTheRow(t *testing.T) {
	t.Parallel()
	after := Step{After: Delay{Days: 3}, EveryInterval: "remind_every"}
	timed := Step{After: Delay{Days: 3, At: "09:00"}, EveryInterval: "remind_every"}
	for want, test := range map[string]struct {
		step  Step
		every expr.Length
	}{
		"after 3d, every 30h":                       {after, expr.Length{Time: 30 * time.Hour}},
		"after 3d at 09:00, every 2 days":           {timed, expr.Length{Time: 30 * time.Hour}},
		"after 3d at 09:00, every 1 month 2 days":   {timed, expr.Length{Months: 1, Days: 1, Time: time.Minute}},
		"after 3d, every 1m":                        {after, expr.Length{Time: time.Second}},
		"after 3d":                                  {after, expr.Length{}},
		"after 3d, every 1 month 1 day 1m":          {after, expr.Length{Months: 1, Days: 1, Time: time.Minute}},
		"before 3d at 09:00, every 1 day":           {Step{Before: timed.After, EveryInterval: "remind_every"}, expr.Length{Time: time.Hour}},
		"after 3d at 09:00, every 1 month, 2 times": {Step{After: timed.After, EveryInterval: "remind_every", Times: 2}, expr.Length{Months: 1}},
	} {
		if got := test.step.whenFor(expr.Held{Every: &test.every}); got != want {
			t.Errorf("%+v: %q, want %q", test.every, got, want)
		}
	}
}
