package pages

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prescient-go/prescient/internal/web"
)

// Role is what somebody may do. The zero value: nothing.
type Role int

// The roles, each with the rights of those before it.
const (
	Nobody Role = iota
	Reader
	Operator
)

func (r Role) String() string { return [...]string{"nobody", "reader", "operator"}[r] }

func (r Role) article() string { return [...]string{"nobody", "a reader", "an operator"}[r] }

// anybody is the name of those who read where no token is needed for it.
const anybody = "anybody"

// Visitor is who looks at the pages.
type Visitor struct {
	Role Role
	Name string // recorded with what he does
	// Token is the number of the token that he has logged in with; 0: none.
	Token int
}

// visitorOf is what somebody is who has sent a token.
func visitorOf(who web.Who) Visitor {
	if who.MayChange {
		return Visitor{Operator, who.Name, who.Token}
	}
	return Visitor{Reader, who.Name, who.Token}
}

// policy lets a page load its own script, style and picture, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// maxForm is how long a form may be, in bytes.
const maxForm = 64 << 10

// headers are those that every answer has: to be asked by no other page, and kept by no cache.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer browsers send forms without their origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// guard lets through what may come, with who it comes from in its context.
func (p *Pages) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		who, known := p.sessions.find(p.sessions.id(r), r.URL.Path != livePath)
		if !known && p.cfg.OpenReading {
			who = Visitor{Role: Reader, Name: anybody}
		}
		r = r.WithContext(context.WithValue(web.WithToken(r.Context(), who.Token), visitorKey{}, who))
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if err := p.checkOrigin(r); err != nil {
				p.fail(w, r, http.StatusForbidden, "This form was not sent from a page of this server: "+err.Error()+". Go back, load that page again, and send it once more.")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin refuses what another site has a browser send: by the headers that browsers tell it by, and by the token
// that only our forms have.
func (p *Pages) checkOrigin(r *http.Request) error {
	if err := p.origin.Check(r); err != nil {
		return err
	}
	if !p.sessions.formTokenIs(p.sessions.id(r), r.PostFormValue("form_token")) {
		return fmt.Errorf("its token is missing, of another log-in, or from before the server was started")
	}
	return nil
}
