package crontab

import (
	"errors"
	"fmt"
	"strings"
)

// field says what one of the five fields may hold.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var fields = [...]field{
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{
		"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
	}},
	{name: "day of week", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// last is the last value of * and of N/step. It is not 7: Sunday is one already, as 0.
func (f *field) last() int {
	if f.isWeekday() {
		return 6
	}
	return f.max
}

func (f *field) isWeekday() bool { return f.max == 7 }

func (f *field) isMonthday() bool { return f.max == 31 }

// parse returns the values of a list as bits, and adds those of its days that depend on the month
// to r.
func (f *field) parse(list string, r *relative) (values uint64, err error) {
	for item := range strings.SplitSeq(list, ",") {
		if ok, err := f.relative(item, r); err != nil {
			return 0, err
		} else if ok {
			continue
		}
		low, high, step, err := f.item(item)
		if err != nil {
			return 0, err
		}
		for value := low; value <= high; value += step {
			values |= 1 << value
		}
	}
	return values, nil
}

// item reads one item of a list: *, 5, 1-5, */15, 1-5/2 or 5/15.
func (f *field) item(item string) (low, high, step int, err error) {
	text, every, stepped := strings.Cut(item, "/")
	if low, high, err = f.values(text); err != nil {
		return 0, 0, 0, err
	}
	if !stepped {
		return low, high, 1, nil
	}
	if !strings.ContainsAny(text, "*-") {
		high = max(low, f.last())
	}
	step, ok := number(every)
	if !ok || step == 0 {
		return 0, 0, 0, fmt.Errorf("the step of %q is no number from 1 on", item)
	}
	if size := high - low + 1; step > size {
		return 0, 0, 0, fmt.Errorf("the step of %q is longer than %d-%d: for an interval, see \"@every 90m\"; "+
			"for one value, write %d", item, low, high, low)
	}
	return low, high, step, nil
}

// values reads *, 5 or 1-5.
func (f *field) values(text string) (low, high int, err error) {
	if text == "*" {
		return f.min, f.last(), nil
	}
	from, to, isRange := strings.Cut(text, "-")
	if low, err = f.value(from); err != nil || !isRange {
		return low, low, err
	}
	if high, err = f.value(to); err != nil {
		return 0, 0, err
	}
	if high == 0 && low > 0 && f.isWeekday() {
		high = 7 // fri-sun
	}
	if high < low {
		return 0, 0, fmt.Errorf("the range %q goes backwards: write \"%s-%d,%d-%s\"", text, from, f.max, f.min, to)
	}
	return low, high, nil
}

// value reads a number or a name.
func (f *field) value(text string) (int, error) {
	if text == "" {
		return 0, errors.New("a value is missing")
	}
	if n, ok := number(text); ok && f.min <= n && n <= f.max {
		return n, nil
	}
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	if hint := quartz(text); hint != "" {
		return 0, fmt.Errorf("%q: %s", text, hint)
	}
	if f.names == nil {
		return 0, fmt.Errorf("%q is not one of %d-%d", text, f.min, f.max)
	}
	return 0, fmt.Errorf("%q is not one of %d-%d or %s", text, f.min, f.max, strings.Join(f.names, ", "))
}

// quartz explains a value that some schedulers accept beyond crontab(5). Returns "" for any other
// value.
func quartz(text string) string {
	switch upper := strings.ToUpper(text); {
	case text == "?":
		return "? is not supported: write *"
	case strings.Contains(text, "#"):
		return "# is for a single day of the week, such as fri#2"
	case strings.HasPrefix(upper, "L"), strings.HasSuffix(upper, "L"):
		return "L is for a day on its own: L, L-3 or LW as the day of the month, friL as the day of the week"
	case strings.HasSuffix(upper, "W"):
		return "W is for a single day of the month, such as 15W"
	}
	return ""
}

// number reads up to four digits.
func number(text string) (n int, ok bool) {
	if text == "" || len(text) > 4 {
		return 0, false
	}
	for _, digit := range []byte(text) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = 10*n + int(digit-'0')
	}
	return n, true
}
