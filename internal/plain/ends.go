package plain

import "unicode/utf8"

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
