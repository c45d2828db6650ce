// Package pages serves prescient's pages for people. The server renders them, and they need no
// JavaScript. A small script keeps them up to date.
//
//	p := pages.New(pages.Config{Board: b, Access: access})
//	mux.Handle("/", p)
//
// With several stores, NewStores returns the page of all, where people log in. Of returns the pages
// of one store, whose paths have a common beginning. A template writes addresses only with {{url}}.
//
// guard.go and session.go decide who may see what. A change needs an operator's token, and must
// come from a form of these pages. The caller checks the host name of requests. Every page shows
// what a Board reads. Every action takes a form, a preview with its numbers, and a confirmation.
package pages
