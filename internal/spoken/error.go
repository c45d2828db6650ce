package spoken

import "regexp"

// ofDriver is the prefix that package pq gives the errors of PostgreSQL.
var ofDriver = regexp.MustCompile(`(^|[\s(\["'])pq: `)

// Error returns the text of an error without the name of the driver, which says nothing to a person.
func Error(text string) string { return ofDriver.ReplaceAllString(text, "$1") }
