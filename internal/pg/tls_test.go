package pg

import "testing"

func TestAConnectionToAnotherMachineWhoseEncryptionIsOptionalIsFound(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://db.example.com/shop":                     "db.example.com",
		"postgres://db.example.com/shop?sslmode=prefer":      "db.example.com",
		"postgres://10.0.0.7/shop?sslmode=allow":             "10.0.0.7",
		"host=db.example.com dbname=shop":                    "db.example.com",
		"postgres://localhost:5432,b.example.com:5432/shop":  "b.example.com",
		"postgres://db.example.com/shop?sslmode=require":     "",
		"postgres://db.example.com/shop?sslmode=verify-full": "",
		"postgres://db.example.com/shop?sslmode=disable":     "", // the operator chose it
		"postgres://127.0.0.1/shop":                          "",
		"postgres://[::1]/shop":                              "",
		"postgres://localhost/shop":                          "",
		"postgres:///shop?host=/var/run/postgresql":          "",
		"":       "",
		"no url": "",
	} {
		if got := OptionalTLS(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
