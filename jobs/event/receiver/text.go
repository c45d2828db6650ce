package receiver

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// cut shortens a text to a number of bytes, and says so at its end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const end = "..."
	return strings.ToValidUTF8(text[:max(0, most-len(end))], "") + end
}

// together makes one text of several, below a heading. It leaves out the last ones, and says how many, if all of them
// do not fit into a number of bytes.
func together(heading string, texts []string, most int) string {
	var b strings.Builder
	b.WriteString(heading)
	for i, text := range texts {
		rest := fmt.Sprintf("\n\n... and %d more, which prescient events tail shows", len(texts)-i)
		entry := "\n\n" + strings.TrimSpace(text)
		room := most - b.Len()
		if i < len(texts)-1 {
			room -= len(rest)
		}
		if len(entry) > room && i > 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(cut(entry, room))
	}
	return b.String()
}

// togetherHTML makes one fragment of HTML of several messages, below a heading. A message without HTML has its text. It
// returns nothing if none has HTML.
func togetherHTML(heading string, texts, pages []string) string {
	if !slices.ContainsFunc(pages, func(page string) bool { return page != "" }) {
		return ""
	}
	var b strings.Builder
	b.WriteString("<p>" + html.EscapeString(heading) + "</p>\n")
	for i, page := range pages {
		if page == "" {
			page = `<div style="white-space: pre-wrap">` + html.EscapeString(strings.TrimSpace(texts[i])) + "</div>"
		}
		b.WriteString("<hr>\n" + page + "\n")
	}
	return b.String()
}
