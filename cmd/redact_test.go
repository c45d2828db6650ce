package cmd

import "testing"

func TestMessagesHideThePasswordsOfArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ arg, text, want string }{
		{"postgres://u:pw@h/d", `unknown "postgres://u:pw@h/d"`, `unknown "postgres://u:***@h/d"`},
		{"--at=postgres://u:pw@h/d", `bad postgres://u:pw@h/d`, `bad postgres://u:***@h/d`},
		{`postgres://u:p"w@h/d`, `bad "postgres://u:p\"w@h/d"`, `bad "***"`},
		{"password=pw", "bad password=pw", "bad password=***"},
		{"https://example.com/x", "bad https://example.com/x", "bad https://example.com/x"},
		{"order", "bad order", "bad order"},
	} {
		if got := redact(c.text, []string{c.arg}); got != c.want {
			t.Errorf("%s: %s, want %s", c.arg, got, c.want)
		}
	}
}
