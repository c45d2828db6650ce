// Package web has the common parts of prescient's HTTP APIs: tokens, problems of RFC 9457, strict
// bodies and parameters, and a server that limits slow clients.
package web
