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

// leastShare is how many bytes of a text together keeps at least: enough to tell which row it is about.
const leastShare = 200

// together makes one text of several, below a heading. If all of them do not fit into a number of bytes, it cuts those
// that are longer than their share, so that a long one hides no other. Then it leaves out the last ones, and says how
// many.
func together(heading string, texts []string, most int) string {
	const between = "\n\n"
	all := len(heading)
	for _, text := range texts {
		all += len(between) + len(strings.TrimSpace(text))
	}
	share := all
	if all > most {
		share = max(leastShare, (most-len(heading))/len(texts)-len(between))
	}
	var b strings.Builder
	b.WriteString(heading)
	for i, text := range texts {
		rest := fmt.Sprintf(between+"... and %d more, which prescient events tail shows", len(texts)-i)
		entry := between + cut(strings.TrimSpace(text), share)
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
