package pages

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// Config configures Pages. Access must be set, and Board, or Stores for several stores.
type Config struct {
	Board *board.Board
	// Stores are the stores that NewStores shows.
	Stores *board.Stores
	// Access finds the owner of a token. The API of the server shares it.
	Access *web.Access
	// Command is the command that serves, for texts on pages. Defaults to "prescient serve".
	Command string
	// OpenReading allows reading without a token, for a server that only this machine reaches.
	OpenReading bool
	// Secure is true if browsers reach the server over TLS, also through a proxy. Cookies then
	// travel only over TLS.
	Secure bool
	// Logger receives the errors that visitors do not see. Defaults to slog.Default().
	Logger *slog.Logger
}

// Pages is the handler of the pages. It is safe for concurrent use.
type Pages struct {
	http.Handler
	site *site
}

// site has what the pages of one handler share, and shows a page. Each type with a group of pages
// embeds it.
type site struct {
	cfg       Config
	store     string // the store; empty: the only one, or the page of all stores
	base      string // the beginning of its paths
	sections  []section
	state     func(ctx context.Context) verdict
	now       func() time.Time
	templates *templates
	static    fs.FS
	version   string // of the static files
	sessions  *sessions
	origin    *http.CrossOriginProtection
}

// page is the content of a template, with its title and its section of the navigation.
type page struct {
	Title, Section string
	Content        any
	Search         search
	Live           string // where the page asks for what has changed; empty: livePath
}

// search is the content of the search box.
type search struct{ Name, Key string }

// section is an entry of the navigation.
type section struct{ Path, Name string }

var sections = []section{
	{"/", "Now"},
	{"/ledger", "Ledger"},
	{"/jobs", "Jobs"},
	{"/rules", "Rules"},
	{"/schedules", "Schedules"},
	{"/events", "Events"},
	{"/alerts", "Alerts"},
	{"/actions", "Actions"},
}

// New returns the handler of all pages.
func New(cfg Config) *Pages { return ofBoard(newSite(cfg)) }

func newSite(cfg Config) *site {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Command = cmp.Or(cfg.Command, "prescient serve")
	static, _ := fs.Sub(staticFiles, "static") // the path is valid
	return &site{
		cfg: cfg, templates: newTemplates(), static: static, version: versionOf(static),
		sessions: newSessions(cfg.Secure), origin: http.NewCrossOriginProtection(),
		now: func() time.Time { return time.Time{} },
	}
}

// ofBoard returns the pages of the Board of a site.
func ofBoard(s *site) *Pages {
	first, doing := overviews{s}, actions{s}
	s.sections, s.now = sections, s.cfg.Board.Now
	s.state = func(ctx context.Context) verdict { return first.read(ctx, usual, 0).Verdict }
	return newPages(s, first.fragments, func(mux *http.ServeMux, v visitors) {
		mux.Handle("GET /{$}", v.readers(first.show))
		for path, reading := range readings {
			mux.Handle("GET "+path, v.readers(s.handle(reading)))
		}
		for _, form := range action.Forms {
			mux.Handle("GET /do/"+form.Path, v.operators(doing.do(form)))
			mux.Handle("POST /do/"+form.Path, v.operators(doing.do(form)))
		}
	})
}

// newPages returns the handler of the given routes and those of every site. Open pages get what render
// returns for the range of their chart.
func newPages(
	s *site, render func(ctx context.Context, of string) fragments, routes func(mux *http.ServeMux, v visitors),
) *Pages {
	v, mux := visitors{s}, http.NewServeMux()
	mux.Handle("GET "+livePath, v.readers(newLives(render).serve))
	mux.HandleFunc("GET /login", v.login)
	mux.HandleFunc("POST /login", v.login)
	mux.HandleFunc("POST /logout", v.logout)
	mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // their addresses contain their version
		http.ServeFileFS(w, r, s.static, r.PathValue("file"))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, http.StatusNotFound, noPage)
	})
	routes(mux, v)
	return &Pages{web.Deadline(v.guard(mux), "text/plain; charset=utf-8", latePage), s}
}

// latePage is the answer to a request that gets no other one in time.
const latePage = "The database does not answer. Load the page again in a moment.\n"

// noPage is the text for a path without a page.
const noPage = "There is no such page."

// versionOf returns a short name for a version of files.
func versionOf(files fs.FS) string {
	sum := sha256.New()
	_ = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		_, _ = sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// show sends a page.
func (s *site) show(w http.ResponseWriter, r *http.Request, status int, name string, v page) {
	who := visitor(r.Context())
	_, loggedIn := s.sessions.find(s.sessions.id(r), false)
	data := map[string]any{
		"Title": v.Title, "Section": v.Section, "Page": v.Content, "Search": v.Search, "Sections": s.sections,
		"Visitor": who, "LoggedIn": loggedIn,
		"FormToken": s.sessions.formToken(s.sessions.id(r)), "Path": s.base + r.URL.RequestURI(),
		"Version": s.version, "Store": s.store, "Top": "/", "Live": cmp.Or(v.Live, livePath),
		"Sort": r.URL.Query().Get("sort"), "Desc": r.URL.Query().Get("desc"),
	}
	if who.MayRead {
		data["State"] = s.state(r.Context())
		if b := s.cfg.Board; b != nil && b.Schema() != pgsql.DefaultSchema {
			data["Schema"] = b.Schema()
		}
		if now := s.now(); !now.IsZero() {
			data["Now"] = now
		}
	}
	html, err := s.render(name, "layout", data)
	if err != nil {
		s.cfg.Logger.ErrorContext(r.Context(), "a page cannot be shown", "page", name, "error", err)
		http.Error(w, "this page cannot be shown; the log has the error\n", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, html)
}

func (s *site) render(name, part string, data any) (string, error) {
	var html bytes.Buffer
	if err := s.templates.execute(&html, s.base, s.now(), name, part, data); err != nil {
		return "", err
	}
	return escapeControls(html.String()), nil
}

// fail shows a page with a problem.
func (s *site) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	s.show(w, r, status, "error", page{Title: http.StatusText(status), Content: text})
}

// failed shows a page for an error of a Board.
func (s *site) failed(w http.ResponseWriter, r *http.Request, err error) {
	refused, isRefused := errors.AsType[*action.RefusedError](err)
	field, isField := errors.AsType[*jobs.FieldError](err)
	switch {
	case isRefused:
		s.fail(w, r, http.StatusBadRequest, refused.Reason)
	case isField:
		s.fail(w, r, http.StatusBadRequest, field.Error())
	case errors.Is(err, board.ErrNotFound), errors.Is(err, schedule.ErrNotFound), errors.Is(err, rulestore.ErrNotFound):
		s.fail(w, r, http.StatusNotFound, "No slot, job or schedule has this name.")
	case errors.Is(err, board.ErrBusy):
		w.Header().Set("Retry-After", "2")
		s.fail(w, r, http.StatusServiceUnavailable,
			"Too many requests at once: this one was not sent to the database. Load the page again in a moment.")
	case pg.IsRowSecurity(err):
		s.fail(w, r, http.StatusServiceUnavailable, "The page cannot be read: "+pgsql.ErrRowSecurity.Error()+".")
	case pg.HasState(err, pqerror.InsufficientPrivilege):
		s.fail(w, r, http.StatusForbidden, web.NoRights)
	case errors.Is(err, pgsql.ErrNotMigrated):
		s.fail(w, r, http.StatusServiceUnavailable, "The page cannot be read: "+pgsql.ErrNotMigrated.Error()+".")
	case pg.HasState(err, pqerror.QueryCanceled):
		s.fail(w, r, http.StatusServiceUnavailable,
			"It would take the database too long: "+web.AskLess+".")
	case errors.Is(err, web.ErrLate), errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "2")
		s.fail(w, r, http.StatusServiceUnavailable,
			"The database does not answer. Load the page again in a moment.")
	default:
		s.cfg.Logger.ErrorContext(r.Context(), "reading a page failed", "path", r.URL.Path, "error", err)
		s.fail(w, r, http.StatusServiceUnavailable,
			"The database does not answer, or the page cannot be read. The log of "+s.cfg.Command+" has the error.")
	}
}
