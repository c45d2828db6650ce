package pages

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// monotonic measures how long log-ins last and sending takes.
var monotonic = time.Now //nolint:forbidigo // measures

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
	cfg       Config
	store     string // the store; empty: the only one, or the page of all stores
	base      string // the beginning of its paths
	sections  []section
	state     func(ctx context.Context) verdict
	handler   http.Handler
	templates *templates
	version   string // of the static files
	sessions  *sessions
	origin    *http.CrossOriginProtection
	hub       *hub
}

// page is the content of a template, with its title and its section of the navigation.
type page struct {
	Title, Section string
	Content        any
	Search         search
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
	{"/actions", "Actions"},
}

// New returns the handler of all pages. Close it before the server.
func New(cfg Config) (*Pages, error) {
	if cfg.Board == nil || cfg.Access == nil {
		return nil, errors.New("pages.Config: Board and Access must be set")
	}
	p, err := newPages(cfg)
	if err != nil {
		return nil, err
	}
	return p, p.ofBoard()
}

func newPages(cfg Config) (*Pages, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Command = cmp.Or(cfg.Command, "prescient serve")
	all, err := newTemplates()
	if err != nil {
		return nil, fmt.Errorf("parse the pages: %w", err)
	}
	return &Pages{
		cfg: cfg, templates: all, sessions: newSessions(cfg.Secure, monotonic), origin: http.NewCrossOriginProtection(),
	}, nil
}

// ofBoard makes them the pages of their Board.
func (p *Pages) ofBoard() error {
	p.sections = sections
	p.state = func(ctx context.Context) verdict { return p.readOverview(ctx, 0).Verdict }
	return p.ready(p.fragments, func(mux *http.ServeMux) {
		for path, handle := range map[string]http.HandlerFunc{
			"/{$}": p.overview, "/slot": p.read("slot", p.slot), "/ledger": p.read("ledger", p.ledger),
			"/jobs": p.read("jobs", p.jobs),
			"/job":  p.read("job", p.job), "/rules": p.read("rules", p.rules), "/rule": p.read("rule", p.rule),
			"/advice": p.read("advice", p.advice),
			"/entity": p.read("entity", p.entity), "/schedules": p.read("schedules", p.schedules),
			"/schedule": p.read("schedule", p.schedule), "/events": p.read("events", p.events),
			"/actions": p.read("actions", p.actions),
			"/waiting": p.read("checks", p.waiting), "/ended": p.read("checks", p.ended),
		} {
			mux.Handle("GET "+path, p.requireRole(Reader, handle))
		}
		for _, d := range actionForms {
			mux.Handle("GET /do/"+d.Path, p.requireRole(Operator, p.do(d)))
			mux.Handle("POST /do/"+d.Path, p.requireRole(Operator, p.do(d)))
		}
	})
}

// ready builds the handler from the given routes and those of every page. Streams send what render
// returns.
func (p *Pages) ready(render func(ctx context.Context) fragments, routes func(mux *http.ServeMux)) error {
	p.hub = newHub(render)
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		return err
	}
	p.version = digest(static)
	mux := p.shared(static)
	routes(mux)
	p.handler = p.guard(mux)
	return nil
}

// ServeHTTP answers a request.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Close ends all streams, which would never end by themselves.
func (p *Pages) Close() { p.hub.close() }

// shared returns the routes of the pages of one store and of all stores.
func (p *Pages) shared(static fs.FS) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET "+livePath, p.requireRole(Reader, p.live))
	mux.HandleFunc("GET /login", p.login)
	mux.HandleFunc("POST /login", p.login)
	mux.HandleFunc("POST /logout", p.logout)
	mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // their addresses contain their version
		http.ServeFileFS(w, r, static, r.PathValue("file"))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, "There is no such page.")
	})
	return mux
}

// digest returns a short name for a version of files.
func digest(files fs.FS) string {
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
func (p *Pages) show(w http.ResponseWriter, r *http.Request, status int, name string, v page) {
	who := visitor(r.Context())
	_, loggedIn := p.sessions.find(p.sessions.id(r), false)
	data := map[string]any{
		"Title": v.Title, "Section": v.Section, "Page": v.Content, "Search": v.Search, "Sections": p.sections,
		"Visitor": who, "LoggedIn": loggedIn,
		"FormToken": p.sessions.formToken(p.sessions.id(r)), "Path": p.base + r.URL.RequestURI(),
		"Version": p.version, "Store": p.store, "Top": "/",
	}
	if who.Role != None {
		data["State"] = p.state(r.Context())
	}
	html, err := p.render(name, "layout", data)
	if err != nil {
		p.cfg.Logger.ErrorContext(r.Context(), "a page cannot be shown", "page", name, "error", err)
		http.Error(w, "this page cannot be shown; the log has the error\n", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, html)
}

func (p *Pages) render(name, part string, data any) (string, error) {
	var html bytes.Buffer
	if err := p.templates.execute(&html, p.base, name, part, data); err != nil {
		return "", err
	}
	return escapeControls(html.String()), nil
}

// fail shows a page with a problem.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	p.show(w, r, status, "error", page{Title: http.StatusText(status), Content: text})
}

// failed shows a page for an error of a Board.
func (p *Pages) failed(w http.ResponseWriter, r *http.Request, err error) {
	refused, isRefused := errors.AsType[*board.RefusedError](err)
	field, isField := errors.AsType[*jobs.FieldError](err)
	switch {
	case isRefused:
		p.fail(w, r, http.StatusBadRequest, refused.Reason)
	case isField:
		p.fail(w, r, http.StatusBadRequest, field.Error())
	case errors.Is(err, board.ErrNotFound), errors.Is(err, schedule.ErrNotFound):
		p.fail(w, r, http.StatusNotFound, "There is no such thing, or no more.")
	case errors.Is(err, board.ErrBusy):
		w.Header().Set("Retry-After", "2")
		p.fail(w, r, http.StatusServiceUnavailable, "Too many requests at once: this one was not sent to the database. Load the page again in a moment.")
	case pgsql.HasState(err, pqerror.InsufficientPrivilege):
		p.fail(w, r, http.StatusForbidden, board.NoRights)
	default:
		p.cfg.Logger.ErrorContext(r.Context(), "reading a page failed", "path", r.URL.Path, "error", err)
		p.fail(w, r, http.StatusServiceUnavailable, "The database does not answer, or the page cannot be read. The log of "+p.cfg.Command+" has the error.")
	}
}
