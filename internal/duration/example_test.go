package duration_test

import (
	"fmt"
	"os"

	"github.com/prescient-go/prescient/internal/duration"
)

func ExampleParse() {
	keep, err := duration.Parse("1d12h")
	fmt.Fprintln(os.Stdout, keep, err)
	// Output: 36h0m0s <nil>
}
