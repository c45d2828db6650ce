package rule

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prescient-go/prescient/internal/ical"
)

// readHolidays reads a file of holidays. Its path is relative to a directory.
func readHolidays(dir, name string) (file HolidayFile, err error) {
	file.Name = name
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	in, err := os.Open(name)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		return file, fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(in, ical.MaxBytes+1))
	if err != nil {
		return file, fmt.Errorf("cannot be read: %w", err)
	}
	days, err := ical.Days(string(text))
	if err != nil {
		return file, err
	}
	if len(days) == 0 {
		return file, errors.New("has no event that takes all day")
	}
	for _, d := range days {
		day := FileDay{Day: d.Date.Format(time.DateOnly), Name: d.Name}
		if d.Yearly {
			day.Day, day.From, day.Until, day.Except = d.Date.Format("01-02"), d.Date.Year(), d.Until, d.Except
		}
		file.Days = append(file.Days, day)
	}
	return file, nil
}
