package config

import (
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
)

// fields yields every setting of c that has a key of its own, such as run.page, and a pointer
// to its field. The sections that are lists have none.
func fields(c *Config) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for section, value := range reflect.ValueOf(c).Elem().Fields() {
			if value.Kind() != reflect.Struct {
				continue
			}
			for setting, field := range settings(value.Addr().Interface()) {
				if !yield(section.Tag.Get("mapstructure")+"."+setting, field) {
					return
				}
			}
		}
	}
}

// settings yields the settings of a section, given a pointer to it: their names and pointers to
// their fields.
func settings(section any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for setting, value := range reflect.ValueOf(section).Elem().Fields() {
			if setting.Anonymous {
				settings(value.Addr().Interface())(yield) // the last call: its result does not matter
				return
			}
			if !yield(setting.Tag.Get("mapstructure"), value.Addr().Interface()) {
				return
			}
		}
	}
}

// set stores a value from a source in the field that target points to, and reports whether its type
// allows that. It is stricter than a generic decoder: 60 is not a duration, and 1.9 is not a whole
// number.
func set(target, value any) bool {
	written, ok := text(value)
	if list, is := value.([]any); is {
		written, ok = join(list, target)
	}
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
		*target, err = duration.Parse(written)
	case *Hosts:
		*target = Hosts(written)
	case *Types:
		*target = Types(written)
	case *Prefixes:
		*target, err = parsePrefixes(written)
	case *URL:
		*target = NewURL(written)
	case *Endpoint:
		*target = NewEndpoint(written)
	case *Address:
		*target = NewAddress(written)
	case *Secret:
		*target = NewSecret(written)
	default:
		return false
	}
	return err == nil
}

// text returns a scalar of a file, a variable or a flag as it was written, without the final line
// break of a secret made with echo. No setting takes a table or a truth value.
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

// join returns a list of a file as the text that a variable would have for the same setting. It
// returns false if the setting is a single value.
func join(list []any, target any) (string, bool) {
	var separator string
	switch target.(type) {
	case *Hosts, *Prefixes, *Types:
		separator = ", "
	case *Secret:
		separator = " "
	default:
		return "", false
	}
	texts := make([]string, len(list))
	for i, value := range list {
		var ok bool
		if texts[i], ok = text(value); !ok {
			return "", false
		}
	}
	return strings.Join(texts, separator), true
}

// show returns the value of the field that target points to, for people.
func show(target any) string {
	if d, ok := target.(*time.Duration); ok {
		return duration.Format(*d)
	}
	return fmt.Sprint(reflect.ValueOf(target).Elem())
}
