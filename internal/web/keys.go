package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// MinToken is the least length of a token, in characters.
const MinToken = 16

// Who is somebody who knows a token.
type Who struct {
	Name      string // of the token; empty: it has none
	MayChange bool
	Token     int // the number of the token, from 1 on; 0: none
}

// tokenKey is where a context has the number of a token.
type tokenKey struct{}

// WithToken returns a context of a request that came with the token of this number.
func WithToken(ctx context.Context, token int) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenOf returns the number that WithToken has put into a context, or 0.
func TokenOf(ctx context.Context) int {
	token, _ := ctx.Value(tokenKey{}).(int)
	return token
}

// Keys are tokens, of which no more is kept than their digests.
type Keys []key

type key struct {
	digest [sha256.Size]byte
	who    Who
}

// NewKeys returns the keys of those who may change things, and of those who may only read. It refuses a token that is short.
func NewKeys(tokens, readTokens []string) (Keys, error) {
	var keys Keys
	for i, token := range append(append([]string{}, tokens...), readTokens...) {
		if len(token) < MinToken {
			return nil, fmt.Errorf("a token has fewer than %d characters", MinToken)
		}
		keys = append(keys, key{sha256.Sum256([]byte(token)), Who{MayChange: i < len(tokens), Token: i + 1}})
	}
	return keys, nil
}

// NewNamedKeys is NewKeys for tokens that may have names, such as ops:0123456789abcdef: what stands before the first colon.
// Those without are called operator and reader.
func NewNamedKeys(tokens, readTokens []string) (Keys, error) {
	bare := func(list []string, fallback string) (tokens, names []string) {
		for _, text := range list {
			name, token, named := strings.Cut(text, ":")
			if !named || name == "" {
				name, token = fallback, text
			}
			tokens, names = append(tokens, token), append(names, name)
		}
		return tokens, names
	}
	operators, names := bare(tokens, "operator")
	readers, more := bare(readTokens, "reader")
	keys, err := NewKeys(operators, readers)
	for i, name := range append(names, more...) {
		if err == nil {
			keys[i].who.Name = name
		}
	}
	return keys, err
}

// Find returns who a token belongs to. It compares digests, with every key's, so that the time it takes tells nothing, not even
// a length. A token that is given twice has the rights of both.
func (k Keys) Find(token string) (who Who, known bool) {
	got := sha256.Sum256([]byte(token))
	for _, key := range k {
		if subtle.ConstantTimeCompare(got[:], key.digest[:]) == 1 {
			if !known || key.who.MayChange && !who.MayChange {
				who = key.who
			}
			known = true
		}
	}
	return who, known
}

// Bearer returns the token that a request was sent with.
func Bearer(r *http.Request) (token string, given bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}
