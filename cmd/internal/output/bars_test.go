package output

import (
	"bytes"
	"strings"
	"testing"
)

func TestProgressHasABarForEachPieceOfWork(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := NewBars(&out, true)
	b.Show("slot 1", 1, 3)
	b.Show("slot 1", 4, 3)
	b.Show("slot 2", 2, 0)
	b.Close()
	for _, want := range []string{"slot 1 ... done! [4 in", "slot 2 ... done! [2 in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}
