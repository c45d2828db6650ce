package pages

import (
	"html/template"
	"io"
	"io/fs"
	"runtime"
	"time"
)

// templates are the templates of all pages of every store. It is safe for concurrent use.
type templates struct {
	// idle has a set for each processor, nil until it is used. The links of each store have a
	// different beginning, and a set for each of a thousand stores would take 3 GB.
	idle chan *set
}

// set holds the templates by name, each page with the layout and the common parts. Its links begin
// with base.
type set struct {
	base string
	now  time.Time // of the clock that slots are compared with; zero: not known
	all  map[string]*template.Template
}

func newTemplates() *templates {
	t := &templates{make(chan *set, runtime.GOMAXPROCS(0))}
	for t.idle <- parse(); len(t.idle) < cap(t.idle); {
		t.idle <- nil
	}
	return t
}

// execute writes a part of a page whose links begin with base, as of now.
func (t *templates) execute(w io.Writer, base string, now time.Time, name, part string, data any) error {
	s := <-t.idle
	defer func() { t.idle <- s }()
	if s == nil {
		s = parse()
	}
	s.base, s.now = base, now
	return s.all[name].ExecuteTemplate(w, part, data)
}

func parse() *set {
	names, _ := fs.Glob(templateFiles, "templates/page_*.html") // the pattern is valid
	s := &set{all: map[string]*template.Template{}}
	own := template.FuncMap{
		"url":  func(path string, pairs ...any) string { return s.base + link(path, pairs...) },
		"when": func(at any) template.HTML { return when(at, s.now) },
	}
	for _, name := range names {
		s.all[name[len("templates/page_"):len(name)-len(".html")]] = template.Must(
			template.New("").Funcs(functions).Funcs(own).ParseFS(templateFiles, "templates/layout.html",
				"templates/parts.html", "templates/chart.html", "templates/overview.html", name))
	}
	return s
}
