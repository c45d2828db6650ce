package ledger_test

import (
	"testing"

	"github.com/prescient-go/prescient/slots/ledger"
)

func TestACountThatStoppedSaysSo(t *testing.T) {
	t.Parallel()
	exact, stopped := ledger.Count{N: 7}, ledger.Count{N: 10_000, AtLeast: true}
	for got, want := range map[string]string{
		exact.String(): "7", stopped.String(): "10,000+", exact.Plus(stopped).String(): "10,007+",
		exact.Of("row waits", "rows wait"): "7 rows wait", ledger.Count{N: 1}.Of("row waits", "rows wait"): "1 row waits",
		stopped.Of("row waits", "rows wait"): "more than 10,000 rows wait",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
