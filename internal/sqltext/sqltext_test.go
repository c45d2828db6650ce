package sqltext_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/sqltext"
)

var letters = map[sqltext.Kind]string{sqltext.Other: "o", sqltext.Comment: "c", sqltext.Literal: "l", sqltext.Word: "w"}

// tokens returns the tokens of a text, each after the letter of its kind, without white space.
func tokens(text string) (list []string) {
	for rest := text; rest != ""; {
		n, kind := sqltext.Next(rest)
		if kind != sqltext.Space {
			list = append(list, letters[kind]+" "+rest[:n])
		}
		rest = rest[n:]
	}
	return list
}

func TestATextIsSplitAsPostgreSQLSplitsIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"select a$1":                "w select|w a$1",
		"select $1":                 "w select|o $|o 1",
		`'a''b' "c""d"`:             `l 'a'|l 'b'|l "c"|l "d"`,
		`E'a\'b' x`:                 `l E'a\'b'|w x`,
		`e'a''b\'c' x`:              `l e'a''b\'c'|w x`,
		`'a\' x`:                    `l 'a\'|w x`,
		`typE'a'`:                   `w typE|l 'a'`,
		"$$a;b$$ $t$ $$ $t$;":       "l $$a;b$$|l $t$ $$ $t$|o ;",
		"-- a\nb":                   "c -- a\n|w b",
		"/* a /* b */ c */ d":       "c /* a /* b */ c */|w d",
		"a -- b":                    "w a|c -- b",
		"'open":                     "l 'open",
		`E'open\`:                   `l E'open\`,
		"$t$open":                   "l $t$open",
		"/* open /* */":             "c /* open /* */",
		"größe > 1 and ä$ö is null": "w größe|o >|o 1|w and|w ä$ö|w is|w null",
	} {
		if got := tokens(text); strings.Join(got, "|") != want {
			t.Errorf("%q: %q, want %q", text, got, strings.Split(want, "|"))
		}
	}
}

func TestTheTokensAreTheWholeText(t *testing.T) {
	t.Parallel()
	text := "select 'a', \"b\", $$c$$, E'\\'' /* d */ from t -- e\n where x = $1;"
	var whole []byte
	for rest := text; rest != ""; {
		n, _ := sqltext.Next(rest)
		whole = slices.Concat(whole, []byte(rest[:n]))
		rest = rest[n:]
	}
	if string(whole) != text {
		t.Errorf("%q", whole)
	}
}
