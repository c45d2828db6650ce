// Package plain keeps from terminals what untrusted text could do to them: control characters move the cursor, set the
// title or type, and those that set the direction of a text show it in another order than it has.
package plain

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// isControl tells whether a terminal acts on r, or shows what is beside it otherwise.
func isControl(r rune) bool {
	return r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// JSON returns JSON with every such character, of which JSON itself lets those from U+007F on through, as its \u escape:
// the value stays what it is. A byte that is no UTF-8 becomes U+FFFD.
func JSON(text []byte) []byte {
	clean := 0 // bytes at the beginning that stay as they are
	var out []byte
	for i := 0; i < len(text); {
		if text[i] < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if bad := r == utf8.RuneError && size == 1; bad || isControl(r) {
			out = append(out, text[clean:i]...)
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
			clean = i + size
		}
		i += size
	}
	if clean == 0 {
		return text
	}
	return append(out, text[clean:]...)
}

// Writer returns a writer that writes [JSON] to w. What is written to it must end where a character does.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(text []byte) (int, error) {
	if n, err := w.Writer.Write(JSON(text)); err != nil {
		return min(n, len(text)), err
	}
	return len(text), nil
}

// Text returns a text with a space in place of each character that is neither printable, nor the end of a line or a tab.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return Printable(r)
	}, text)
}

// Printable returns r, or a space if it is not printable.
func Printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
