package story

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/serve/pages"
)

// Stores serves worlds as stores, by name, and others that are down.
func Stores(t testing.TB, worlds map[string]*World, down map[string]error) http.Handler {
	t.Helper()
	stores := &board.Stores{}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	front := pages.NewStores(pages.Config{Stores: stores, Access: Access(t, log), Logger: log})
	mux := http.NewServeMux()
	mux.Handle("/", front)
	for name, w := range worlds {
		shown := front.Of(name, w.Board)
		stores.SetUp(name, w.Board, shown)
		mux.Handle(pages.StorePath(name)+"/", http.StripPrefix(pages.StorePath(name), shown))
	}
	for name, err := range down {
		stores.SetDown(name, err)
	}
	return mux
}
