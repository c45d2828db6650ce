// Package server has what the HTTP servers of serve and daemon share: who may send requests, and what
// they warn of. It knows no command.
package server

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/cmd/doctor"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/web"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Unencrypted finds passwords and tokens that the settings let travel over a network unencrypted.
func Unencrypted(cfg config.Config) []doctor.Finding {
	list := clearDatabases(cfg)
	if cfg.Server.Token == (config.Secret{}) && cfg.Server.ReadToken == (config.Secret{}) {
		return list
	}
	for _, server := range []struct{ command, listen, hint string }{
		{"daemon", cfg.Daemon.Listen, ""},
		{"serve", cfg.Serve.Listen, ", and set server.proxy and server.proxy_networks"},
	} {
		if server.listen == "" || web.IsLoopback(server.listen) {
			continue
		}
		list = append(list, doctor.Finding{
			Name: "encryption", Severity: doctor.Note,
			What: fmt.Sprintf("%s.listen is %s: other machines reach it without TLS, so tokens travel unencrypted", server.command, server.listen),
			Do:   "listen on localhost, behind a proxy with TLS" + server.hint + "; on a private network, leave it",
		})
	}
	return list
}

// clearDatabases finds connections to databases on other machines whose encryption is optional.
func clearDatabases(cfg config.Config) (list []doctor.Finding) {
	type named struct {
		key string
		url config.URL
	}
	urls := []named{{"database.url", cfg.Database.URL}}
	for _, s := range cfg.Stores {
		urls = append(urls, named{fmt.Sprintf("stores[%s].url", s.Name), s.URL})
	}
	for _, job := range cfg.SQLJobs {
		urls = append(urls, named{fmt.Sprintf("sql_jobs[%s].database", job.Name), job.Database})
	}
	for _, u := range urls {
		if u.url == (config.URL{}) || u.url.Reveal() == config.Embedded {
			continue
		}
		if host := pgsql.OptionalTLS(u.url.Reveal()); host != "" {
			list = append(list, doctor.Finding{
				Name: "encryption", Severity: doctor.Note,
				What: fmt.Sprintf("%s connects to %s with sslmode=prefer, or allow: the connection may be unencrypted, and the server's certificate is not checked", u.key, host),
				Do:   "add sslmode=verify-full to " + u.key + "; if the network is private, set sslmode=disable or require to accept this",
			})
		}
	}
	return list
}

// WarnUnencrypted logs once the findings of Unencrypted that concern a server.
func WarnUnencrypted(ctx context.Context, f *factory.Factory) {
	for _, found := range Unencrypted(f.Config()) {
		f.Log().WarnContext(ctx, "a secret may travel unencrypted", "what", found.What, "remedy", found.Do)
	}
}
