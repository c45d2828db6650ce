package rulescmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/spoken"
)

type calendarOptions struct {
	fileOptions
	name string
	year int
}

func newCmdCalendar(f *factory.Factory) *cobra.Command {
	o := &calendarOptions{fileOptions: fileOptions{f: f}}
	c := o.flag(f.WithOutput(&cobra.Command{
		Use:   "calendar NAME",
		Short: "List the holidays of a calendar in a year",
		Long: `List the holidays of a calendar of the file in a year, each with its source: the list of a country
or region, the law that corrects this list, a file of holidays, or the field "holidays". A day that
"workdays" takes off the holidays is there, too. It needs no database.`,
		Example: `  prescient rules calendar berlin -f rules.yaml --year 2026
  prescient rules calendar berlin -f rules.yaml --year 2026 -o json`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.name = args[0]
			return runCalendar(o)
		},
	}))
	c.Args = cli.Exactly("NAME")
	c.Flags().IntVar(&o.year, "year", 0, "the `YEAR`, such as 2026")
	_ = c.MarkFlagRequired("year")
	return c
}

func runCalendar(o *calendarOptions) error {
	if o.year < 1 || o.year > 9999 {
		return exit.Usagef("--year %d: want a year such as 2026", o.year)
	}
	file, err := o.read()
	if err != nil {
		return err
	}
	calendar, found := file.Calendars[o.name]
	if !found {
		names := slices.Sorted(maps.Keys(file.Calendars))
		if len(names) == 0 {
			return exit.Usagef("the file has no calendars")
		}
		return exit.Usagef("the file has no calendar %s, but %s", o.name, spoken.List(names))
	}
	days, err := calendar.HolidaysOf(o.year)
	if err != nil {
		return fmt.Errorf("calendar %s: %w", o.name, err)
	}
	header := table.Row{"DATE", "DAY", "NAME", "WORK", "SOURCE"}
	return output.List(o.f.Printer, append([]rule.Holiday{}, days...), header, func(h rule.Holiday) table.Row {
		day := ""
		if at, err := time.Parse(time.DateOnly, h.Date); err == nil {
			day = strings.ToLower(at.Weekday().String()[:3])
		}
		return table.Row{h.Date, day, h.Name, workOn(h), h.Source}
	})
}

// workOn says how long work goes on a holiday.
func workOn(h rule.Holiday) string {
	switch {
	case h.Works:
		return "yes, by workdays"
	case h.From != "":
		return "until " + h.From
	}
	return "no"
}
