package spoken

import "testing"

func TestAWordIsReadByAShellAsOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"order.unshipped": "order.unshipped", "a=b@c": "a=b@c", "": "''", "order 42": "'order 42'", "x;id": "'x;id'", "it's": `'it'\''s'`, "a\nb": "'a\nb'",
	} {
		if got := Word(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
