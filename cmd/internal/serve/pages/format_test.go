package pages

import (
	"html/template"
	"slices"
	"strings"
	"testing"
)

func TestAMessageThatIsCutKeepsTheSentenceWithTheRemedy(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"the function": `{{ends 160 .}}`, "in two lines": `{{ends 300 .}}`,
	} {
		var html strings.Builder
		message := "cannot " + strings.Repeat("reach\n", 200) + "it. Check database.url."
		if err := template.Must(template.New("").Funcs(functions).Parse(text)).Execute(&html, message); err != nil {
			t.Fatal(err)
		}
		got := html.String()
		if !strings.HasPrefix(got, "cannot reach reach") || !strings.HasSuffix(got, "it. Check database.url.") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAShareIsWrittenWithoutAnExponent(t *testing.T) {
	t.Parallel()
	for part, want := range map[int64]string{0: "0 %", 1: "less than 0.1 %", 123: "1.23 %", 9_999: "100 %", 150_000: "1500 %"} {
		if got := percent(part, 10_000); got != want {
			t.Errorf("%d of 10,000: %q, want %q", part, got, want)
		}
	}
}

func TestKeysThatAreNumbersAreInTheOrderOfNumbers(t *testing.T) {
	t.Parallel()
	want := []string{"", "0", "07", "7", "9", "10", "18446744073709551616", "1/2", "10/1", "9a", "a10", "a9"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareKeys)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
