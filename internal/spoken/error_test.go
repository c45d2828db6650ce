package spoken

import "testing"

func TestTheTextOfAnErrorHasNoNameOfADriver(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pq: deadlock detected (40P01)":             "deadlock detected (40P01)",
		"read a: pq: no such column\npq: and again": "read a: no such column\nand again",
		"see faq: nothing":                          "see faq: nothing",
		"":                                          "",
	} {
		if got := Error(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
