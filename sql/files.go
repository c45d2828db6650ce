package sql

import (
	"embed"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/prescient-go/prescient/sql/statements"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

//go:embed functions/*.sql
var functionFiles embed.FS

// source is one of the .sql files that make up the schema.
type source struct {
	name string // without its folder and extension
	text string // names the default schema
}

// migrations returns the migrations, oldest first. Their versions are 1, 2, 3 ... It reads them when it is
// first called, because most processes never need them.
var migrations = sync.OnceValue(func() []source { return readFiles(migrationFiles, "migrations") })

// functions returns the files of sql/functions by name. Each holds the functions of its name.
var functions = sync.OnceValue(func() []source { return readFiles(functionFiles, "functions") })

// readFiles panics if an embedded file cannot be read, which only a broken build can cause.
func readFiles(from fs.FS, folder string) []source {
	entries, err := fs.ReadDir(from, folder)
	if err != nil {
		panic(err)
	}
	var files []source
	for _, entry := range entries { // in the order of their names
		text, err := fs.ReadFile(from, path.Join(folder, entry.Name()))
		if err != nil {
			panic(err)
		}
		files = append(files, source{strings.TrimSuffix(entry.Name(), ".sql"), statements.Expand(string(text))})
	}
	return files
}

// statements splits the text of a file, because Citus does not take several statements as one
// message. A statement ends with a line that ends in a semicolon, outside a body between $$ and $$.
func (s source) statements(schema Schema) []string {
	var all []string
	var one strings.Builder
	inBody := false
	for line := range strings.Lines(schema.qualify(s.text)) {
		if one.Len() == 0 && isBlankOrComment(line) {
			continue
		}
		one.WriteString(line)
		if strings.Count(line, "$$")%2 == 1 {
			inBody = !inBody
		}
		if !inBody && !isBlankOrComment(line) && strings.HasSuffix(strings.TrimSpace(line), ";") {
			all = append(all, strings.TrimSpace(one.String()))
			one.Reset()
		}
	}
	return all
}

func isBlankOrComment(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "--")
}

// version is the number that the name of a migration begins with.
func (s source) version() int64 {
	number, _, _ := strings.Cut(s.name, "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		panic("migration " + s.name + ": its name must begin with a number")
	}
	return version
}
