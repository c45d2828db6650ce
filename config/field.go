package config

import (
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// fields yields every setting of c: its key, as in run.page, and a pointer to its field.
func fields(c *Config) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for section, settings := range reflect.ValueOf(c).Elem().Fields() {
			for setting, value := range settings.Fields() {
				key := section.Tag.Get("mapstructure") + "." + setting.Tag.Get("mapstructure")
				if !yield(key, value.Addr().Interface()) {
					return
				}
			}
		}
	}
}

// set stores a value from a source in the field that target points to, and reports whether its type allows that.
// It is strict where a generic decoder is lenient: 60 is no duration and 1.9 is no whole number.
func set(target, value any) bool {
	written, ok := text(value)
	if !ok {
		return false
	}
	var err error
	switch target := target.(type) {
	case *string:
		*target = written
	case *int:
		*target, err = strconv.Atoi(written)
	case *time.Duration:
		*target, err = ParseDuration(written)
	case *URL:
		*target = NewURL(written)
	default:
		return false
	}
	return err == nil
}

// text returns a scalar of a file, a variable or a flag as it was written, without the line break that a secret
// made with echo ends in. Lists, tables and truth values are not for any setting.
func text(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return strings.TrimRight(value, "\r\n"), true
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), true
	case int, int64, uint64:
		return fmt.Sprint(value), true
	default:
		return "", false
	}
}

// show returns the value of the field that target points to, for people.
func show(target any) string {
	if d, ok := target.(*time.Duration); ok {
		return FormatDuration(*d)
	}
	return fmt.Sprint(reflect.ValueOf(target).Elem())
}
