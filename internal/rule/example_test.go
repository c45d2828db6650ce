package rule_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
)

func ExampleParse() {
	const text = `calendars:
  office: {timezone: Europe/Berlin, hours: "mon-fri 09:00-17:00"}
rules:
  - name: order.late
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    steps:
      - {after: 48h, event: order.late}
      - {after: 3 business days, calendar: office, event: order.lost}
`
	file, err := rule.Parse(strings.NewReader(text))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range file.Rules {
		timing, err := rule.NewTiming(r, file.Calendars)
		if err != nil {
			fmt.Println(err)
			return
		}
		placed := time.Date(2026, time.March, 6, 15, 0, 0, 0, time.UTC) // a Friday
		for i, step := range r.Steps {
			due, err := timing.Nth(i, placed, 1)
			fmt.Println(step.Event, due.At.Format(time.RFC1123), err)
		}
	}
	// Output:
	// order.late Sun, 08 Mar 2026 15:00:00 UTC <nil>
	// order.lost Wed, 11 Mar 2026 15:00:00 UTC <nil>
}

// Each mistake of a file is a Problem with its line.
func ExampleProblem() {
	_, err := rule.Parse(strings.NewReader("rules:\n  - name: order.late\n    tabel: shop.orders\n"))
	if problem, ok := errors.AsType[*rule.Problem](err); ok {
		fmt.Printf("line %d: %s: %s\n", problem.Line, problem.Field, problem.Message)
	}
	// Output:
	// line 3: tabel: there is no such field: did you mean table?
}
