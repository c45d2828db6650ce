package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	readmeLines   = 120
	proseColumns  = 100
	codeColumns   = 120
	sentenceWords = 25
	causeWords    = 30 // of a sentence with "because" or "if": a cause stays with its effect
)

// unnamed are words that hide the actor of a sentence, and turns of phrase that a newcomer reads twice.
var unnamed = regexp.MustCompile(`(?i)\b(who(so)?ever|(some|any|every|no)body|he|him|his|himself|theirs|others|` +
	`is what|is none|so it is with|once more)\b`)

// cause begins the reason or the condition of what a sentence says.
var cause = regexp.MustCompile(`(?i)\b(because|if)\b`)

// allowed is a sentence that stays as it is: a promise, which DESIGN and the tests quote.
var allowed = regexp.MustCompile(`^A check never starts before`)

func TestREADMEIsShort(t *testing.T) {
	t.Parallel()
	if n := strings.Count(readPage(t, "../README.md"), "\n"); n > readmeLines {
		t.Errorf("README.md has %d lines, and may have %d: move something to docs", n, readmeLines)
	}
}

func TestThePagesAreInPlainEnglish(t *testing.T) {
	t.Parallel()
	for _, page := range append(pages(t), "../bench/README.md", "../internal/torture/RUNS.md") {
		for _, fault := range faultsOf(readPage(t, page)) {
			t.Errorf("%s:%s", page, fault)
		}
	}
}

func TestARuleOfProseFindsWhatBreaksIt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 26)
	for text, faults := range map[string]int{
		"The runner checks the row.\n":                                                            0,
		"Whoever runs it is what matters.\n":                                                      2,
		"Nobody waits for `whoever`. He does.\n":                                                  2,
		"```go\n// whoever\n```\n":                                                                0,
		"```go\n" + strings.Repeat("x", 121) + "\n```\n":                                          1,
		"```text\n" + strings.Repeat("x", 121) + "\n```\n":                                        0,
		"```console\n$ " + strings.Repeat("x", 119) + "\n" + strings.Repeat("x", 121) + "\n```\n": 1,
		"| `x` | " + strings.Repeat("y", 121) + " |\n":                                            0,
		strings.Repeat("y", 101) + "\n":                                                           1,
		"[text](" + strings.Repeat("y", 101) + ")\n":                                              0,
		long + ".\n": 2, // the line is too long as well
		strings.ReplaceAll(long, "word word", "word\nword") + ".\n":    1,
		strings.Repeat("word\n", 27) + "because\nword.\n":              0,
		strings.Repeat("word\n", 29) + "if\nword.\n":                   1,
		"- " + strings.Repeat("word ", 13) + "\n- " + long[:65] + "\n": 0,
	} {
		if got := faultsOf(text); len(got) != faults {
			t.Errorf("%q: %d faults, want %d: %v", text, len(got), faults, got)
		}
	}
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	newItem    = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	sentences  = regexp.MustCompile(`[.!?:;](\s|\*|$)`)
)

// faultsOf returns the faults of words and lines of a page, each with its line.
func faultsOf(text string) (faults []string) {
	found := func(line int, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%d: ", line)+fmt.Sprintf(format, args...))
	}
	paragraph, begins := "", 0
	end := func() {
		for _, sentence := range sentences.Split(paragraph, -1) {
			sentence = strings.Trim(sentence, " *")
			most := sentenceWords
			if cause.MatchString(sentence) {
				most = causeWords
			}
			if n := len(strings.Fields(sentence)); n > most && !allowed.MatchString(sentence) {
				found(begins, "a sentence of %d words, more than %d: %s", n, most, sentence)
			}
		}
		paragraph = ""
	}
	code, printed := false, false
	for i, line := range strings.Split(text, "\n") {
		table := strings.HasPrefix(line, "|")
		columns, most := utf8.RuneCountInString(linkTarget.ReplaceAllString(line, "]")), proseColumns
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			code = !code
			printed = line == "```text" || line == "```console"
			continue
		case code && printed && !strings.HasPrefix(line, "$ "): // a command decides how wide its output is
			continue
		case code || strings.HasPrefix(line, "    ") && paragraph == "":
			most = codeColumns
		default:
			prose := linkTarget.ReplaceAllString(inlineCode.ReplaceAllString(line, "code"), "]")
			for _, word := range unnamed.FindAllString(prose, -1) {
				found(i+1, "%q: name the actor, and say it plainly", word)
			}
			if table {
				paragraph = ""
				for cell := range strings.SplitSeq(prose, "|") {
					paragraph, begins = cell, i+1
					end()
				}
				continue
			}
			if strings.TrimSpace(line) == "" {
				end()
				continue
			}
			if newItem.MatchString(line) || strings.HasPrefix(line, "#") {
				end()
			}
			if paragraph == "" {
				begins = i + 1
			}
			paragraph += " " + newItem.ReplaceAllString(strings.TrimSpace(prose), "")
		}
		if columns > most {
			found(i+1, "%d columns, more than %d", columns, most)
		}
	}
	end()
	return faults
}
