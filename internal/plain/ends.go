package plain

import (
	"strings"
	"unicode/utf8"
)

// gap stands for what Ends leaves out.
const gap = " ... "

// Ends returns a text of at most n bytes: the text itself, or its beginning and its end. The end of a
// message often says what to do.
func Ends(text string, n int) string {
	if len(text) <= n {
		return text
	}
	head := max(0, n-len(gap)) / 2
	tail := len(text) - max(0, n-len(gap)-head)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + gap + text[tail:]
}

// maxErrorText is how many bytes of an error's text are kept: its beginning and its end.
const maxErrorText = 2000

// ErrorText returns an error's text as the database accepts it, without NUL bytes and invalid
// UTF-8. One bad text must not fail the batch that it is recorded in.
func ErrorText(err error) string {
	// Again, because U+FFFD is longer than the bytes it replaces.
	text := Ends(err.Error(), maxErrorText)
	text = Ends(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD"), maxErrorText)
	if text == "" {
		return "an error without a text"
	}
	return text
}
