package pages

import (
	"html/template"
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
