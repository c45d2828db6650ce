package output

import (
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Fill wraps text, whose paragraphs may be in lines of any length. A line that begins with a space is an entry of a
// list, and goes on below its last column; one without a label is code, and stays as it is.
func Fill(long string, width int) string {
	var lines []string
	for paragraph := range strings.SplitSeq(long, "\n\n") {
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, entries(paragraph, width)...)
	}
	return strings.Join(lines, "\n")
}

// entries wraps the lines of a paragraph: those that belong together as one.
func entries(paragraph string, width int) (lines []string) {
	var label, words string
	flush := func() {
		indent := text.StringWidth(label)
		switch {
		case label != "" && strings.TrimSpace(label) == "": // as it stands: code
			lines = append(lines, label+words)
		case label+words != "":
			lines = append(lines, label+strings.ReplaceAll(Wrap(words, width-indent), "\n", "\n"+strings.Repeat(" ", indent)))
		}
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(paragraph, "\t", "    "), "\n") {
		begin := entry.FindString(line)
		indent := strings.TrimSpace(begin) == "" && strings.TrimSpace(label) != "" && len(begin) == text.StringWidth(label)
		if indent || begin == "" && label == "" {
			words += " " + strings.TrimSpace(line)
			continue
		}
		flush()
		label, words = begin, strings.TrimPrefix(line, begin)
	}
	flush()
	return lines
}

// entry matches the beginning of an entry of a list: the indent, the label, and the spaces before the text.
var entry = regexp.MustCompile(`^ +(?:\S+(?: \S+)* {2,})?`)
