// Package defaults holds the defaults that the packages jobs and slots share with others, which run or
// describe the same work. The options and the fields of Config state them.
package defaults

import "time"

// Of a job for which an option is not given, and of jobs.Config.
const (
	MaxChecks  = 5
	Timeout    = time.Minute
	Retry      = 5
	MaxBackOff = 64       // slots
	MaxPayload = 64 << 10 // bytes
)

// Of slots.Config.
const (
	Workers = 64
	Grace   = 20 * time.Second
)
