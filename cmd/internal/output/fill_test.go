package output

import "testing"

func TestHelpWrapsTextAndLeavesCode(t *testing.T) {
	t.Parallel()
	const long = `Some words that go on
over lines.

  first   of a list whose text goes on
          and on, and on
  second  short
  third is longer  than that

  - id: code stays as it is however wide
      misfire: latest`
	want := `Some words that go on over
lines.

  first   of a list whose text
          goes on and on, and
          on
  second  short
  third is longer  than that

  - id: code stays as it is however wide
      misfire: latest`
	if got := Fill(long, 30); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
