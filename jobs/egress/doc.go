// Package egress sends what leaves the house by HTTP: signed, to addresses that are allowed, and again when that may
// help.
//
//	client, err := egress.New(egress.Config{Secret: secret, Allow: prefixes})
//	...
//	answer, err := client.Post(ctx, to, egress.Message{ID: id, ContentType: "application/json", Body: body})
//
// A request is signed as Standard Webhooks 1.0 has it; see [Signer]. The time that is signed is that of the try.
//
// Addresses are checked when a connection is made, after the name was resolved, so neither a name nor a redirect leads
// to an address that is private, loopback, link-local (where cloud metadata is) or otherwise special, unless
// Config.Allow has it. A proxy would make that check of its own address alone, so no proxy is used, whatever the
// environment says. Certificates are checked against the system's roots; SSL_CERT_FILE names others.
//
// Redirects 307 and 308, which keep the method and the body, are followed three times at the most and never from
// https to http. Any other redirect would lose the body: it is an error that says so.
//
// A network error and the answers 408, 425, 429 and 5xx are tried again, after a pause that doubles or that the answer
// asks for with Retry-After. What the context leaves no time for is not waited for. Everything else is final.
//
// An error names the scheme and the host, never the rest of the URL: its user, path and query may be secrets.
package egress
