package install

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/seq"
)

// span is how far ahead the offsets of a zone are read, so that every offset of its summer time
// occurs.
const span = 2 * 366 * 24 * time.Hour

// offsets returns the offsets from UTC that a zone has from an instant on, without duplicates.
func offsets(zone *time.Location, from time.Time) []time.Duration {
	var found []time.Duration
	for at := from.In(zone); ; {
		_, seconds := at.Zone()
		if offset := time.Duration(seconds) * time.Second; !slices.Contains(found, offset) {
			found = append(found, offset)
		}
		_, end := at.ZoneBounds()
		if end.IsZero() || end.Sub(from) > span {
			return found
		}
		at = end
	}
}

// schedule is the local times at which a slot begins: at each of the minutes, of each of the hours.
type schedule struct {
	minutes, hours []int
	starts         int // a day
}

// newSchedule returns the minutes at which slots begin in any hour, at any of the offsets. It names
// hours only if slots are whole hours and there is one offset. So an hour that summer time repeats
// or skips does not matter, and a run that finds its slot done does nothing.
func newSchedule(width time.Duration, offsets []time.Duration) (schedule, error) {
	if width < time.Minute || width%time.Minute != 0 {
		return schedule{}, fmt.Errorf("slots of %s: %w", width, ErrWidth)
	}
	const day = 24 * time.Hour
	var minutes, hours [60]bool
	for slot := time.Duration(0); slot < day; slot += width {
		for _, offset := range offsets {
			local := (slot + offset + day) % day
			minutes[local%time.Hour/time.Minute] = true
			hours[local/time.Hour] = true
		}
	}
	s := schedule{minutes: which(minutes[:])}
	s.hours = which(hours[:24])
	if len(offsets) > 1 || width%time.Hour != 0 {
		s.hours = which(slices.Repeat([]bool{true}, 24))
	}
	s.starts = len(s.minutes) * len(s.hours)
	return s, nil
}

func which(set []bool) (numbers []int) {
	for n, is := range set {
		if is {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// crontab returns the schedule as the five fields of cron.
func (s schedule) crontab() string {
	return field(s.minutes, 60, "*") + " " + field(s.hours, 24, "*") + " * * *"
}

// calendar returns the schedule as systemd writes it, in UTC.
func (s schedule) calendar() string {
	return "*-*-* " + field(s.hours, 24, "00") + ":" + field(s.minutes, 60, "00") + ":00 UTC"
}

// field writes numbers below n: as *, as a step from first, or one by one.
func field(numbers []int, n int, first string) string {
	if len(numbers) == n {
		return "*"
	}
	step := n / len(numbers)
	if even := len(numbers) > 1 && n%len(numbers) == 0 && numbers[0] == 0; even && isEven(numbers, step) {
		return first + "/" + strconv.Itoa(step)
	}
	return strings.Join(seq.Map(numbers, strconv.Itoa), ",")
}

func isEven(numbers []int, step int) bool {
	for i, number := range numbers {
		if number != i*step {
			return false
		}
	}
	return true
}
