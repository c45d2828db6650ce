// Package statements holds the .sql file of each statement. Only prescient itself runs them, so their
// texts belong to no public contract.
package statements

import (
	"embed"
	"strings"
	"sync"
)

//go:embed *.sql
var files embed.FS

// texts caches the files that were read: a process that cron starts needs few of them.
var texts sync.Map

// Text returns the statement of a file, which name names without its extension. The text has no comments, and its lists
// of columns are written out. It panics if there is no such file.
func Text(name string) string {
	if text, ok := texts.Load(name); ok {
		return text.(string)
	}
	content, err := files.ReadFile(name + ".sql")
	if err != nil {
		panic(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(string(content)) {
		// a parameter written into the statement must not land in a comment
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines.WriteString(line)
		}
	}
	text := Expand(strings.TrimSpace(lines.String()))
	texts.Store(name, text)
	return text
}
