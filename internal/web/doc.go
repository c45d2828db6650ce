// Package web is what the HTTP APIs of prescient have in common: tokens, problems of RFC 9457, bodies and parameters that are read
// strictly, and a server that waits for nobody for long.
package web
