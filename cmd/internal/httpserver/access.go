package httpserver

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/prescient-go/prescient/cmd/internal/doctor"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/slots/daemon"
)

// policy decides who may read and who may act.
type policy struct {
	access  *web.Access // to the pages
	api     *web.Access // to the API
	health  *web.Access // to what health tells
	metrics *web.Access
	tokens  bool  // the settings have a token
	open    bool  // no token is needed to read
	closed  error // why pages and API are not served; nil: they are
}

// newPolicy returns the policy of a server that listens on an address.
func newPolicy(f *factory.Factory, listen string) (policy, error) {
	cfg := f.Config().Server
	keys, err := web.NewNamedKeys(strings.Fields(cfg.Token.Reveal()), strings.Fields(cfg.ReadToken.Reveal()))
	if err != nil {
		return policy{}, exit.Usagef("server.token, server.read_token: %w", err)
	}
	private := web.IsLoopback(listen) && cfg.Proxy == "off"
	access := web.NewAccess(keys, web.ProxiedAddress(cfg.ProxyNetworks), f.Log()).LockingOut()
	p := policy{
		access: access, api: access.Door(), health: access.Door(), metrics: access.Door(),
		tokens: len(keys) > 0, open: private && cfg.ReadToken == config.Secret{},
	}
	if !private && !p.tokens {
		why, or := fmt.Sprintf("server.proxy is %s, so other machines may connect", cfg.Proxy), ""
		if cfg.Proxy == "off" {
			why, or = fmt.Sprintf("other machines may connect to %s", listen), ", or listen on localhost"
		}
		p.closed = exit.Usagef("%s: set server.token or server.read_token, such as ops: and what "+
			"`openssl rand -hex 16` prints%s", why, or)
	}
	return p, nil
}

// mayRead reports whether the sender of a request may read at a door.
func (p policy) mayRead(door *web.Access, r *http.Request) bool {
	return p.open && r.Header.Get("Authorization") == "" || door.Allows(r)
}

// readers refuses requests for metrics without the right to read.
func (p policy) readers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.mayRead(p.metrics, r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="prescient"`)
			http.Error(w, "send the header Authorization: Bearer, and a token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hosts returns the names that the server answers to, besides localhost and addresses. In a cluster
// they include the names of its services, which no site on the internet can have.
func hosts(f *factory.Factory, listen string) []string {
	names := web.Names(string(f.Config().Server.Hosts))
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		names = append(names, ".svc", ".svc.cluster.local")
	}
	return daemon.Hosts(names, listen)
}

// warn logs once what is dangerous in the settings of the server.
func warn(ctx context.Context, f *factory.Factory, listen string) {
	for _, found := range doctor.Unencrypted(f.Config()) {
		f.Log().WarnContext(ctx, "a secret may travel unencrypted", "what", found.What, "remedy", found.Do)
	}
	if cfg := f.Config().Server; listen != "" && cfg.Proxy != "off" && len(cfg.ProxyNetworks) == 0 {
		f.Log().WarnContext(ctx,
			"server.proxy is set and server.proxy_networks is empty: every request counts as the proxy's own, "+
				"and five wrong tokens lock out all users for a minute. "+
				"Set server.proxy_networks to the addresses of the proxy", "proxy", cfg.Proxy)
	}
}
