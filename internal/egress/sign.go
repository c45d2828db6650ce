package egress

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Signer signs as Standard Webhooks 1.0 has it, with HMAC-SHA256 (v1). It is safe for concurrent
// use.
type Signer struct {
	keys [][]byte
}

// The length of a key in bytes, by the specification.
const (
	minKey = 24
	maxKey = 64
)

// NewSigner reads one or more secrets, separated by spaces, each "whsec_" and base64 of 24 to 64
// bytes. Its error does not show them.
func NewSigner(secrets string) (*Signer, error) {
	s := &Signer{}
	for i, secret := range strings.Fields(secrets) {
		text, ok := strings.CutPrefix(secret, "whsec_")
		if !ok {
			return nil, fmt.Errorf(`webhook secret %d: must begin with "whsec_", as "whsec_$(openssl rand -base64 32)" does`,
				i+1)
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf(`webhook secret %d: what follows "whsec_" must be base64`, i+1)
		}
		if len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("webhook secret %d: must be base64 of %d to %d bytes, is of %d", i+1,
				minKey, maxKey, len(key))
		}
		s.keys = append(s.keys, key)
	}
	if s.keys == nil {
		return nil, errors.New("webhook secret: must not be empty")
	}
	return s, nil
}

// Sign sets the three headers: the id, which must be as EncodeID makes it, the time in whole
// seconds, and a signature of both and of the body for each secret, in their order.
func (s *Signer) Sign(header http.Header, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(s.keys))
	for i, key := range s.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, timestamp)
	header.Set(HeaderSignature, strings.Join(signatures, " "))
}

// EncodeID makes an id fit for webhook-id: letters, digits and -_~$&+=:@ stay as they are, all else
// is percent-encoded. A dot is, since dots separate what is signed: with one in the id, another
// message could bear the same signature.
func EncodeID(id string) string {
	return strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
}
