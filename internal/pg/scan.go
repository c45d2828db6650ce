package pg

import (
	"database/sql"
	"time"
)

// UTC returns a destination for an instant, which it sets in UTC. Null becomes the zero time, or nil if the variable is
// a pointer.
func UTC[T time.Time | *time.Time](to *T) sql.Scanner {
	return scanner(func(value any) error {
		var at sql.NullTime
		err := at.Scan(value)
		switch to := any(to).(type) {
		case *time.Time:
			*to = at.Time.UTC()
		case **time.Time:
			if *to = nil; at.Valid {
				*to = new(at.Time.UTC())
			}
		}
		return err
	})
}

// Micros returns a destination for a number of microseconds, which it sets as a duration. Null becomes 0.
func Micros[T ~int64](to *T) sql.Scanner {
	return scanner(func(value any) error {
		var n sql.NullInt64
		err := n.Scan(value)
		*to = T(time.Duration(n.Int64) * time.Microsecond)
		return err
	})
}

type scanner func(value any) error

// Scan implements [sql.Scanner].
func (s scanner) Scan(value any) error { return s(value) }
