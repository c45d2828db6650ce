package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prescient-go/prescient/internal/web"
)

// policy lets a page load only its own script, style and pictures.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm bounds a form, in bytes. A form may name two hundred rows.
const maxForm = 1 << 20

// headers sets the headers of every answer: no other page may embed it, and no cache may keep it.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send forms without an origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// guard refuses forms of other sites, and adds the visitor to the context of a request.
func (p visitors) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		who, known := p.sessions.find(p.sessions.id(r), !isLive(r))
		if !known && p.cfg.OpenReading {
			who = web.Who{MayRead: true, Name: web.Anybody}
		}
		who.Address = p.cfg.Access.Address(r).String()
		r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, who))
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if _, tooLarge := errors.AsType[*http.MaxBytesError](r.ParseForm()); tooLarge { // it has no token then
				p.fail(w, r, http.StatusRequestEntityTooLarge,
					fmt.Sprintf("The form is larger than %d MiB: select fewer rows, or send less text.", maxForm>>20))
				return
			}
			if err := p.checkOrigin(r); err != nil {
				p.fail(w, r, http.StatusForbidden, "This form was not sent from a page of this server: "+err.Error()+
					". Go back, load that page again, and send it again.")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin refuses requests that another site makes a browser send. It checks the browser's
// headers, and the token that only the forms of these pages have.
func (p visitors) checkOrigin(r *http.Request) error {
	if err := p.origin.Check(r); err != nil {
		return err
	}
	if !p.sessions.formTokenIs(p.sessions.id(r), r.PostFormValue("form_token")) {
		return fmt.Errorf("its token is missing, of another log-in, or from before the server was started")
	}
	return nil
}
