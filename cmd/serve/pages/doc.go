// Package pages is what prescient serve shows to people: pages that the server renders, which need no JavaScript, and a
// small script that keeps what they show up to date.
//
//	p, err := pages.New(pages.Config{Board: b, Access: access})
//	mux.Handle("/", p)
//	...
//	p.Close() // before the server waits for its connections
//
// Of several stores NewStores is the page of all, where people log in, and Of the pages of each, whose paths have a beginning of their
// own: a template writes no address but by {{url}}.
//
// Who may see what is in guard.go and session.go: whoever changes something has to have an operator's token, and what a
// browser sends has to come from a form of these pages. That a request is for a name of ours is seen to before. Every page is built of what
// a Board reads; every action goes by a form, a preview with its numbers, and a confirmation.
package pages
