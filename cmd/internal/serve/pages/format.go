package pages

import (
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// functions are the functions of the templates.
var functions = template.FuncMap{
	"stamp": stamp, "instant": spoken.Instant, "clock": clock, "num": num[int64], "count": num[int],
	"plural": plural, "tally": tally, "counted": counted, "dur": dur,
	"rate": rate, "percent": percent,
	"cut": cut, "ends": ends, "words": words,
	"add": func(a, b int) int { return a + b }, "minus": func(a, b int64) int64 { return a - b },
	"slotMark": func(s slots.State) string { return stateMarks[s] },
	"slotWord": func(s slots.State) string { return stateWords[s] },
	"jobMark":  jobMark, "scheduleMark": scheduleMark, "zoneOf": zoneOf, "local": local, "endMark": endMark,
	"outcomeMark": outcomeMark,
}

// stamp formats an instant in the form of commands and logs, for people and for programs.
func stamp(at any) template.HTML {
	t, ok := instant(at)
	if !ok {
		return `<span class="none">-</span>`
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, //nolint:gosec // digits
		formatInstant(t), spoken.Instant(t)))
}

// when formats an instant, with its distance from now beside it. The script of the page keeps the
// distance up to date.
func when(at any, now time.Time) template.HTML {
	t, ok := instant(at)
	if !ok || now.IsZero() {
		return stamp(at)
	}
	return stamp(at) + template.HTML(` <small class="ago">`+spoken.Ago(t, now)+`</small>`) //nolint:gosec // a duration
}

// clock formats the time of day.
func clock(at any) template.HTML {
	t, ok := instant(at)
	if !ok {
		return `<span class="none">-</span>`
	}
	text := t.Format("15:04")
	if t.Second() != 0 {
		text = t.Format(time.TimeOnly)
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, formatInstant(t), text)) //nolint:gosec // digits
}

func instant(at any) (time.Time, bool) {
	switch t := at.(type) {
	case time.Time:
		return t.UTC(), !t.IsZero()
	case *time.Time:
		if t != nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// formatInstant formats an instant as addresses name a slot.
func formatInstant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// num formats a number with separators of thousands.
func num[N int | int64](n N) string { return spoken.Number(int64(n)) }

// tally formats a count that may have stopped.
func tally(c ledger.Count) template.HTML {
	if c.AtLeast {
		return template.HTML(c.String()) //nolint:gosec // digits, and a plus sign that would be escaped
	}
	return template.HTML(num(c.N)) //nolint:gosec // digits
}

// counted is plural for a count that may have stopped.
func counted(c ledger.Count, one, many string) string {
	if c.AtLeast {
		return c.Of(one, many)
	}
	return plural(c.N, one, many)
}

func plural(n int64, one, many string) string {
	return num(n) + " " + spoken.Noun(n, one, many)
}

func dur(of any) string {
	var d time.Duration
	switch v := of.(type) {
	case time.Duration:
		d = v
	case duration.Text:
		d = time.Duration(v)
	case *duration.Text:
		if v == nil {
			return "-"
		}
		d = time.Duration(*v)
	}
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	default:
		d = d.Round(100 * time.Microsecond)
	}
	return spoken.Duration(d)
}

func percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	share := 100 * float64(part) / float64(whole)
	if 0 < share && share < 0.1 {
		return "less than 0.1 %"
	}
	if share >= 100 {
		return fmt.Sprintf("%.0f %%", share)
	}
	return fmt.Sprintf("%.3g %%", share)
}

// ends returns a message in one line of at most n bytes, without the name of the driver. It leaves out the middle of a
// longer one, because the end of a message often says what to do.
func ends(n int, text string) string {
	return plain.Ends(strings.Join(strings.Fields(spoken.Error(text)), " "), n)
}

// cut returns a text in one line of at most n characters. Messages need ends.
func cut(n int, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return text
}

// words returns a name of the database as people write it.
func words(name any) string { return strings.ReplaceAll(fmt.Sprint(name), "_", " ") }

// link returns an address of these pages for a browser. Templates write no other address.
func (s *site) link(path string, pairs ...any) string { return s.base + link(path, pairs...) }

// link returns a path with its parameters. It leaves out those without a value.
func link(path string, pairs ...any) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		value := fmt.Sprint(pairs[i+1])
		switch t := pairs[i+1].(type) {
		case time.Time:
			value = formatInstant(t)
		case *time.Time:
			value = formatInstant(*t)
		case *string:
			value = *t
		}
		if value != "" {
			values.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// valueOf finds the values of fields. Templates escape quotation marks in every other text.
var valueOf = regexp.MustCompile(` value="[^"]*"`)

// escapeControls makes control characters visible, and those that set the direction of a text. It
// works on whole pages, so that no text is missed. Addresses contain none, because they are
// escaped. Values of fields stay as they are, because a browser sends them back.
func escapeControls(html string) string {
	var b strings.Builder
	shown := func(text string) { b.WriteString(strings.Map(visible, text)) }
	end := 0
	for _, at := range valueOf.FindAllStringIndex(html, -1) {
		shown(html[end:at[0]])
		b.WriteString(html[at[0]:at[1]])
		end = at[1]
	}
	shown(html[end:])
	return b.String()
}

// visible returns a character, or U+FFFD for one that a text does not show.
func visible(r rune) rune {
	if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
		return '\uFFFD'
	}
	return r
}
