package doctor

import (
	"fmt"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/web"
)

// Unencrypted finds passwords and tokens that the settings let travel over a network unencrypted.
func Unencrypted(cfg config.Config) []Finding {
	list := unencryptedDatabases(cfg)
	if cfg.Server.Token == (config.Secret{}) && cfg.Server.ReadToken == (config.Secret{}) {
		return list
	}
	if listen := cfg.Server.Listen; listen != "" && !web.IsLoopback(listen) {
		list = append(list, Finding{
			Name: "encryption", Severity: Note,
			What: fmt.Sprintf("server.listen is %s: other machines reach it without TLS, so tokens travel unencrypted", listen),
			Do: "listen on localhost, behind a proxy with TLS, and set server.proxy and server.proxy_networks; " +
				"on a private network, leave it",
		})
	}
	return list
}

// unencryptedDatabases finds connections to databases on other machines whose encryption is optional.
func unencryptedDatabases(cfg config.Config) (list []Finding) {
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
		if host := pg.OptionalTLS(u.url.Reveal()); host != "" {
			list = append(list, Finding{
				Name: "encryption", Severity: Note,
				What: fmt.Sprintf("%s connects to %s with sslmode=prefer, or allow: "+
					"the connection may be unencrypted, and the server's certificate is not checked", u.key, host),
				Do: "add sslmode=verify-full to " + u.key + "; if the network is private, " +
					"set sslmode=disable or require to accept this",
			})
		}
	}
	return list
}
