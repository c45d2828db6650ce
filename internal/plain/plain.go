// Package plain protects terminals from untrusted text. Control characters move the cursor or set
// the title, and others change the direction in which text is shown.
package plain

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// isControl tells whether a terminal acts on r, or shows the text beside it in another way.
func isControl(r rune) bool {
	return r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// JSON returns JSON with every such character as its \u escape, so that the value stays the same.
// JSON itself allows those from U+007F on. An invalid UTF-8 byte becomes U+FFFD.
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

// Writer returns a writer that writes [JSON] to w. Each write must end at the end of a character.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(text []byte) (int, error) {
	if n, err := w.Writer.Write(JSON(text)); err != nil {
		return min(n, len(text)), err
	}
	return len(text), nil
}

// Text returns a text with a space in place of each character that is not printable, except line
// ends and tabs.
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
