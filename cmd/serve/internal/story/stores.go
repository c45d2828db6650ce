package story

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/cmd/serve/pages"
)

// Several is a server of several stores.
type Several struct {
	http.Handler
	all []*pages.Pages
}

// Close ends the streams of those who watch.
func (s *Several) Close() {
	for _, p := range s.all {
		p.Close()
	}
}

// Stores serves worlds as stores, by name, and others that are down.
func Stores(t testing.TB, worlds map[string]*World, down map[string]error) *Several {
	t.Helper()
	stores := &board.Stores{}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	front, err := pages.NewStores(pages.Config{Stores: stores, Access: Access(t, log), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	s := &Several{all: []*pages.Pages{front}}
	mux := http.NewServeMux()
	mux.Handle("/", front)
	for name, w := range worlds {
		p := front.Of(name, w.Board)
		s.all = append(s.all, p)
		stores.SetUp(name, w.Board)
		mux.Handle(pages.StorePath(name)+"/", http.StripPrefix(pages.StorePath(name), p))
	}
	for name, err := range down {
		stores.SetDown(name, err)
	}
	s.Handler = mux
	return s
}
