package pages

import (
	"html/template"
	"io"
	"io/fs"
	"runtime"
	syntax "text/template/parse"
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
	all  map[string]*template.Template
}

func newTemplates() (*templates, error) {
	first, err := parse()
	t := &templates{make(chan *set, runtime.GOMAXPROCS(0))}
	for t.idle <- first; len(t.idle) < cap(t.idle); {
		t.idle <- nil
	}
	return t, err
}

// execute writes a part of a page whose links begin with base.
func (t *templates) execute(w io.Writer, base, name, part string, data any) (err error) {
	s := <-t.idle
	defer func() { t.idle <- s }()
	if s == nil {
		if s, err = parse(); err != nil {
			return err
		}
	}
	s.base = base
	return s.all[name].ExecuteTemplate(w, part, data)
}

func parse() (*set, error) {
	names, err := fs.Glob(templateFiles, "templates/page_*.html")
	if err != nil {
		return nil, err
	}
	s := &set{all: map[string]*template.Template{}}
	own := template.FuncMap{"url": func(path string, pairs ...any) string { return s.base + link(path, pairs...) }}
	for _, name := range names {
		t, err := template.New("").Funcs(functions).Funcs(own).ParseFS(templateFiles,
			"templates/layout.html", "templates/parts.html",
			"templates/chart.html", "templates/overview.html", name)
		if err != nil {
			return nil, err
		}
		for _, one := range t.Templates() {
			if one.Tree != nil {
				shorten(one.Tree.Root)
			}
		}
		s.all[name[len("templates/page_"):len(name)-len(".html")]] = t
	}
	return s, nil
}

// shorten pipes everything that a template shows through brief, so that no text is missed. It
// leaves addresses, which lead elsewhere if they are cut, and what the template passes to whole.
func shorten(list *syntax.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *syntax.ActionNode:
			if len(n.Pipe.Decl) == 0 && !isWhole(n.Pipe) {
				cut := syntax.NewIdentifier("brief").SetPos(n.Pos)
				n.Pipe.Cmds = append(n.Pipe.Cmds, &syntax.CommandNode{
					NodeType: syntax.NodeCommand, Pos: n.Pos,
					Args: []syntax.Node{cut},
				})
			}
		case *syntax.IfNode:
			shorten(n.List)
			shorten(n.ElseList)
		case *syntax.RangeNode:
			shorten(n.List)
			shorten(n.ElseList)
		case *syntax.WithNode:
			shorten(n.List)
			shorten(n.ElseList)
		}
	}
}

func isWhole(pipe *syntax.PipeNode) bool {
	last := pipe.Cmds[len(pipe.Cmds)-1]
	name, ok := last.Args[0].(*syntax.IdentifierNode)
	return ok && (name.Ident == "url" || name.Ident == "whole")
}
