package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/internal/spoken"
)

// reader reads the nodes of a file, and collects the mistakes.
type reader struct {
	dir  string // of the file
	rule string // the name of the rule that is being read
	errs []error
}

func (r *reader) wrong(line int, field, format string, args ...any) {
	r.errs = append(r.errs, &Problem{Line: line, Rule: r.rule, Field: field, Message: fmt.Sprintf(format, args...)})
}

// value follows an alias. It returns nil for a value that is empty.
func value(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return nil
	}
	return node
}

// pair is a field of a mapping.
type pair struct {
	key   *yaml.Node
	value *yaml.Node
}

// said returns what is wrong with a value that YAML reads as something else than its text. Empty: nothing.
func said(node *yaml.Node) string {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	none := node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
	switch {
	case strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!"):
		text := strings.TrimSpace(strings.TrimPrefix(node.Tag, "!") + " " + node.Value)
		return fmt.Sprintf("YAML takes an exclamation mark at the beginning as a tag, and not as a part of the text. "+
			"SQL writes not %s", text)
	case node.Anchor != "" && none:
		return fmt.Sprintf("YAML takes &%s as the name of an empty value: put the text into quotes", node.Anchor)
	}
	return ""
}

// wished says how a rule does what some people look for under a name of their own.
var wished = map[string]string{
	"delete": ". A step deletes its row with sql: delete from TABLE where KEY = $key",
	"update": ". A step changes its row with sql: update TABLE set ... where KEY = $key",
	"set":    ". A step changes its row with sql: update TABLE set ... where KEY = $key",
}

// mapping yields the fields of a mapping whose values are not empty. known lists their names; nil allows all names. It
// leaves out a field with a mistake. So a caller that misses a field first looks whether there are new mistakes.
func (r *reader) mapping(node *yaml.Node, at string, known []string) (pairs []pair) {
	if node.Kind != yaml.MappingNode {
		r.wrong(node.Line, at, "want fields, such as name: value, not %s", kindOf(node))
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		p := pair{node.Content[i], value(node.Content[i+1])}
		switch name := p.key.Value; {
		case p.key.Kind != yaml.ScalarNode:
			r.wrong(p.key.Line, at, "the name of a field must be text")
		case seen[name]:
			r.wrong(p.key.Line, path(at, name), "is there twice")
		case known != nil && !slices.Contains(known, name):
			r.wrong(p.key.Line, path(at, name), "there is no such field%s%s", cmp.Or(spoken.Meant(name, known), wantOf(known)),
				wished[name])
		case said(node.Content[i+1]) != "":
			r.wrong(p.key.Line, path(at, name), "%s", said(node.Content[i+1]))
		case p.value != nil:
			pairs = append(pairs, p)
		}
		seen[p.key.Value] = true
	}
	return pairs
}

// wantOf names the fields that there are.
func wantOf(known []string) string {
	if len(known) == 1 {
		return ": want " + known[0]
	}
	return ": want one of " + strings.Join(known, ", ")
}

// list returns the values of a list.
func (r *reader) list(node *yaml.Node, at string) (values []*yaml.Node) {
	if node.Kind != yaml.SequenceNode {
		r.wrong(node.Line, at, "want a list, not %s", kindOf(node))
		return nil
	}
	for _, sub := range node.Content {
		if problem := said(sub); problem != "" {
			r.wrong(sub.Line, at, "%s", problem)
			continue
		}
		v := value(sub)
		if v == nil {
			r.wrong(sub.Line, at, "must not have an empty entry")
			continue
		}
		values = append(values, v)
	}
	return values
}

// text returns a text, a number or a date as the file has it.
func (r *reader) text(node *yaml.Node, at string) string {
	if node.Kind != yaml.ScalarNode {
		r.wrong(node.Line, at, "want a text, not %s", kindOf(node))
		return ""
	}
	return node.Value
}

// texts returns a list of texts.
func (r *reader) texts(node *yaml.Node, at string) (list []string) {
	for _, v := range r.list(node, at) {
		list = append(list, r.text(v, at))
	}
	return list
}

// path joins the names of a field.
func path(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", node.Value)
}
