package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// MinToken is the minimum length of a token, in characters.
const MinToken = 16

// Anybody is the name of a sender without a token, where reading needs none.
const Anybody = "anybody"

// Who is the sender of a request.
type Who struct {
	Name      string // of the token; empty: unnamed
	Address   string // empty: unknown
	MayRead   bool
	MayChange bool
	Token     int // the number of the token, from 1 on; 0: none
}

// String returns the sender as it is recorded, such as "ops from 127.0.0.1".
func (w Who) String() string {
	if w.Address == "" {
		return w.Name
	}
	return w.Name + " from " + w.Address
}

// Keys holds the digests of tokens, and nothing else of them.
type Keys []key

type key struct {
	digest [sha256.Size]byte
	who    Who
}

// NewKeys returns the keys of operators and of readers. It refuses a token that is too short.
func NewKeys(tokens, readTokens []string) (Keys, error) {
	var keys Keys
	for i, token := range append(append([]string{}, tokens...), readTokens...) {
		if len(token) < MinToken {
			return nil, fmt.Errorf("a token has fewer than %d characters", MinToken)
		}
		keys = append(keys, key{sha256.Sum256([]byte(token)), Who{MayRead: true, MayChange: i < len(tokens), Token: i + 1}})
	}
	return keys, nil
}

// NewNamedKeys is NewKeys for tokens with an optional name before the first colon, such as
// ops:0123456789abcdef. Tokens without a name are called operator and reader.
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

// Find returns the owner of a token. It compares digests with those of every key, so that the time
// it takes reveals nothing, not even a length. A token that is listed twice has the rights of both.
func (k Keys) Find(token string) (who Who, known bool) {
	got := sha256.Sum256([]byte(token))
	for _, key := range k {
		if subtle.ConstantTimeCompare(got[:], key.digest[:]) == 1 {
			if !known { // operators come first
				who = key.who
			}
			known = true
		}
	}
	return who, known
}

// Bearer returns the bearer token of a request.
func Bearer(r *http.Request) (token string, given bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}
