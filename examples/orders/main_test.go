package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// asBinary makes the test binary run the program, so that a black-box test can run itself.
const asBinary = "ORDERS_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		main()
		return
	}
	os.Exit(pgtest.Main(m))
}

// binary runs the program against a database.
func binary(ctx context.Context, url string, args ...string) (stdout, stderr string, err error) {
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Env = append(os.Environ(), asBinary+"=1", "PRESCIENT_DATABASE_URL="+url)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	return out.String(), errs.String(), err
}
