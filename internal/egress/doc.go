// Package egress sends signed messages by HTTP to allowed addresses, and retries them.
//
//	client, err := egress.New(egress.Config{Secret: secret, Allow: prefixes})
//	...
//	answer, err := client.Post(ctx, to, egress.Message{ID: id, ContentType: "application/json", Body: body})
//
// The client signs requests by Standard Webhooks 1.0; see [Signer]. The signed time is that of the
// attempt.
//
// The client checks an address when it connects, after it has resolved the name. So neither a name
// nor a redirect leads to an address that is private, loopback, link-local (where cloud metadata
// is) or otherwise special, unless Config.Allow has it. It uses no proxy, whatever the environment
// says, because it would then check only the address of the proxy. It checks certificates against
// the system's roots; SSL_CERT_FILE names others.
//
// The client follows the redirects 307 and 308, which keep the method and the body, up to three
// times, and never from https to http. Any other redirect is an error, because it would lose the
// body.
//
// The client retries after a network error and after the answers 408, 425, 429 and 5xx. The pause
// doubles, or is what Retry-After asks for. It returns at once if the context ends before the
// pause. All other errors are final.
//
// An error names the scheme and the host only. The user, path and query of a URL may be secrets.
package egress
