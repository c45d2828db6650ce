package pages

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/prescient-go/prescient/internal/web"
)

// visitors logs visitors in and out, and keeps out those without the rights.
type visitors struct{ *site }

type loginPage struct {
	Problem string
	Open    bool // reading needs no log-in
	Next    string
	Command string
}

// login shows the log-in form, and logs a visitor in.
func (p visitors) login(w http.ResponseWriter, r *http.Request) {
	v := loginPage{Open: p.cfg.OpenReading, Command: p.cfg.Command, Next: p.safeRedirect(r.URL.Query().Get("next"))}
	if r.Method != http.MethodPost {
		p.showLogin(w, r, http.StatusOK, v)
		return
	}
	who, known, err := p.cfg.Access.Find(r, strings.TrimSpace(r.PostFormValue("token")))
	if err != nil {
		w.Header().Set("Retry-After", "60")
		v.Problem = "Too many wrong tokens came from your address. Try again in a minute."
		p.showLogin(w, r, http.StatusTooManyRequests, v)
		return
	}
	if !known {
		v.Problem = "This server does not know that token."
		p.showLogin(w, r, http.StatusForbidden, v)
		return
	}
	p.sessions.begin(w, r, who)
	p.cfg.Access.LoggedIn(r.Context(), r, who)
	http.Redirect(w, r, v.Next, http.StatusSeeOther)
}

// showLogin shows the form. It gives the browser an id first, because the token of the form depends
// on it.
func (p visitors) showLogin(w http.ResponseWriter, r *http.Request, status int, v loginPage) {
	if p.sessions.id(r) == "" {
		id := base64.RawURLEncoding.EncodeToString(random(32))
		p.sessions.set(w, r, id)
		r.AddCookie(&http.Cookie{Name: p.sessions.cookie(r), Value: id})
	}
	p.show(w, r, status, "login", page{Title: "Log in", Content: v})
}

func (p visitors) logout(w http.ResponseWriter, r *http.Request) {
	p.sessions.end(w, r)
	http.Redirect(w, r, p.link("/"), http.StatusSeeOther)
}

// safeRedirect returns next if it is an address of this server, otherwise the first page. A link of
// an attacker may contain any address.
func (p visitors) safeRedirect(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.Contains(next, `\`) {
		return p.link("/")
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// readers passes on the requests of visitors who may read. It asks other visitors to log in, or tells
// them what is missing.
func (p visitors) readers(next http.HandlerFunc) http.HandlerFunc { return p.require("a reader", next) }

// operators is readers for actions.
func (p visitors) operators(next http.HandlerFunc) http.HandlerFunc {
	return p.require("an operator", next)
}

func (p visitors) require(role string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, is := visitor(r.Context()), "nobody"
		if who.MayRead {
			is = "a reader"
		}
		switch {
		case is == role || who.MayChange:
			next(w, r)
		case isLive(r): // an open page, whose script says that the log-in has ended
			http.Error(w, "log in again", http.StatusUnauthorized)
		case r.Method == http.MethodGet && (!who.MayRead || p.cfg.OpenReading && who.Name == web.Anybody):
			http.Redirect(w, r, p.link("/login", "next", p.base+r.URL.RequestURI()), http.StatusSeeOther)
		default:
			p.fail(w, r, http.StatusForbidden, "This needs the token of "+role+"; you are logged in as "+is+".")
		}
	}
}

// mayRead reports whether the visitor may read.
func (p visitors) mayRead(r *http.Request) bool {
	_, known := p.sessions.find(p.sessions.id(r), false)
	return known || p.cfg.OpenReading
}
