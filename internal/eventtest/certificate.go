package eventtest

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Certificate is for 127.0.0.1. Main makes it a root of this process, which reads its roots once.
var Certificate tls.Certificate

// Main runs the tests with Certificate, and returns their exit code. TestMain calls it.
func Main(m *testing.M) int {
	https := httptest.NewTLSServer(http.NotFoundHandler())
	Certificate = https.TLS.Certificates[0]
	https.Close()
	dir, err := os.MkdirTemp("", "eventtest")
	if err != nil {
		panic(err)
	}
	root := filepath.Join(dir, "root.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw})
	if err := errors.Join(os.WriteFile(root, text, 0o600), os.Setenv("SSL_CERT_FILE", root)); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	return code
}
