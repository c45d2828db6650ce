package crontab

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// relative holds the days of a calendar that depend on the month: L, L-3, LW, 15W, friL and fri#2.
type relative struct {
	fromEnd uint32 // bit n: the day n days before the last one
	nearest uint32 // bit n: the weekday nearest to day n; bit 0: the last weekday
	nth     uint64 // bit 7*n+d: the nth day d of the week; n is 0 for the last one
}

const daysPerWeek = 7

// relative reads an item that stands for days relative to the month, and reports whether it is one.
func (f *field) relative(item string, r *relative) (bool, error) {
	switch upper := strings.ToUpper(item); {
	case f.isMonthday() && upper == "L":
		r.fromEnd |= 1
	case f.isMonthday() && upper == "LW":
		r.nearest |= 1
	case f.isMonthday() && strings.HasPrefix(upper, "L-"):
		n, ok := number(upper[len("L-"):])
		if !ok || n < 1 || n > 30 {
			return true, fmt.Errorf("%q: after L- comes a number of days, 1-30", item)
		}
		r.fromEnd |= 1 << n
	case f.isMonthday() && strings.HasSuffix(upper, "W"):
		day, ok := number(strings.TrimSuffix(upper, "W"))
		if !ok || day < 1 || day > 31 {
			return true, fmt.Errorf("%q: before W comes one day of the month, 1-31, or L", item)
		}
		r.nearest |= 1 << day
	case f.isWeekday() && upper == "L":
		return true, fmt.Errorf("%q: write the day of the week before it: friL or 5L is the last Friday of the month",
			item)
	case f.isWeekday() && strings.Contains(item, "#"):
		day, text, _ := strings.Cut(item, "#")
		n, ok := number(text)
		if !ok || n < 1 || n > 5 {
			return true, fmt.Errorf("%q: after # comes a number from 1 to 5; for the last such day, write %sL", item,
				day)
		}
		return true, f.addNth(day, n, r)
	case f.isWeekday() && strings.HasSuffix(upper, "L"):
		return true, f.addNth(item[:len(item)-1], 0, r)
	default:
		return false, nil
	}
	return true, nil
}

// addNth adds the nth such day of the week, or the last one if n is 0.
func (f *field) addNth(day string, n int, r *relative) error {
	weekday, err := f.value(day)
	if err != nil {
		return err
	}
	r.nth |= 1 << (daysPerWeek*n + weekday%daysPerWeek)
	return nil
}

// days returns the days of a month of so many days, bit 1 for the first: those of the day of the
// month, and those of the day of the week. The month begins on the day of the week first.
func (r *relative) days(length int, first time.Weekday) (monthdays, weekdays uint32) {
	monthdays = bits.Reverse32(r.fromEnd) >> (31 - length)
	for rest := r.nearest; rest != 0; rest &= rest - 1 {
		if day := bits.TrailingZeros32(rest); day <= length {
			monthdays |= 1 << nearestWeekday(day, length, first)
		}
	}
	for rest := r.nth; rest != 0; rest &= rest - 1 {
		n, weekday := bits.TrailingZeros64(rest)/daysPerWeek, bits.TrailingZeros64(rest)%daysPerWeek
		day := 1 + (weekday-int(first)+daysPerWeek)%daysPerWeek
		if n == 0 {
			n = 1 + (length-day)/daysPerWeek
		}
		if day += daysPerWeek * (n - 1); day <= length {
			weekdays |= 1 << day
		}
	}
	return monthdays, weekdays
}

// nearestWeekday returns the weekday nearest to a day, in the same month; day 0 is the last day of
// the month.
func nearestWeekday(day, length int, first time.Weekday) int {
	if day == 0 {
		day = length
	}
	switch weekday := weekdayOf(day, first); {
	case weekday == time.Saturday && day == 1:
		return day + 2
	case weekday == time.Saturday:
		return day - 1
	case weekday == time.Sunday && day == length:
		return day - 2
	case weekday == time.Sunday:
		return day + 1
	}
	return day
}

// weekdayOf returns the day of the week of a day of a month that begins on first.
func weekdayOf(day int, first time.Weekday) time.Weekday {
	return (first + time.Weekday(day-1)) % daysPerWeek
}
