package schedulescmd

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/internal/plainyaml"
)

// document is a YAML document: a schedule, or a list of them.
type document struct {
	Version       *fileVersion     `yaml:"version"`
	Schedules     *[]scheduleEntry `yaml:"schedules"`
	scheduleEntry `yaml:",inline"`
}

// readYAML reads documents piece by piece.
func readYAML(in *bufio.Reader, each func(scheduleEntry) error) error {
	found := false
	for p, err := range pieces(in) {
		if err != nil {
			return fmt.Errorf("read the schedules: %w", err)
		}
		documents, err := decodeYAML(p.text)
		if err != nil {
			// Again, with the earlier lines empty, so that the error has the right line numbers.
			if _, again := decodeYAML(append(bytes.Repeat([]byte("\n"), p.before), p.text...)); again != nil {
				err = again
			}
			return cmp.Or(unquoted(p), err)
		}
		for _, d := range documents {
			entries := []scheduleEntry{d.scheduleEntry}
			if d.Schedules != nil {
				entries = *d.Schedules
			}
			for _, e := range entries {
				if err := each(e); err != nil {
					return err
				}
			}
		}
		found = found || len(documents) > 0
	}
	if !found {
		return errors.New("it is empty; a list without schedules is written: schedules: []")
	}
	return nil
}

// needsQuotes matches a value that begins with a special character of YAML, as a crontab may.
var needsQuotes = regexp.MustCompile(`^\s*(?:-\s+)?([a-z_]+):\s+(\[?\s*(?:\*[\s/,\d]|[@%]).*?)\s*$`)

// unquoted returns an error for the first line of a piece whose value must be in quotes. It returns
// nil if no value must.
func unquoted(p piece) error {
	n := p.before
	for line := range strings.Lines(string(p.text)) {
		n++
		if m := needsQuotes.FindStringSubmatch(line); m != nil {
			return fmt.Errorf("line %d: %s begins with a character that has a meaning in YAML: quote it, such as %s: %q", n,
				m[1], m[1], strings.Trim(m[2], "[] "))
		}
	}
	return nil
}

// goTypes and unfit match the parts of the decoder's errors that mean nothing to the author of the
// file.
var (
	goTypes    = regexp.MustCompile(` in type [\w.*\[\]]+`)
	unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
	unfit      = regexp.MustCompile("cannot unmarshal (!!\\w+)( `.*`)? into (\\W*)([\\w.]+)")
	kinds      = map[string]string{
		"!!seq": "a list", "!!map": "an object", "[]": "a list", "int": "a number", "bool": "true or false",
		"string": "a string",
	}
)

// plainly rewrites the decoder's error in plain words.
func plainly(text string) string {
	if m := unfit.FindStringSubmatch(text); m != nil {
		want, got := cmp.Or(kinds[m[3]], kinds[m[4]], "an object"), cmp.Or(strings.TrimSpace(m[2]), kinds[m[1]])
		text = strings.Replace(text, m[0], "want "+want+", not "+got, 1)
	}
	if m := unknownKey.FindStringSubmatch(text); m != nil {
		text = strings.Replace(text, m[0], unknownField(m[1], append([]string{"version", "schedules"}, entryFields...)), 1)
	}
	return goTypes.ReplaceAllString(text, "")
}

// decodeYAML reads all documents of a text except empty ones.
func decodeYAML(text []byte) (list []*document, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	for {
		var d *document
		err := dec.Decode(&d)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if e, ok := errors.AsType[*yaml.TypeError](err); ok {
			for i, text := range e.Errors {
				e.Errors[i] = plainly(text)
			}
			return nil, errors.New(strings.Join(e.Errors, "; "))
		}
		switch {
		case err != nil:
			return nil, err
		case d == nil:
		case d.Schedules == nil && d.ID == "":
			return nil, errors.New(`a document has neither an id nor a list "schedules"; an empty one is written: schedules: []`)
		case d.Schedules != nil && d.ID != "":
			return nil, fmt.Errorf(`a document is the schedule %q and has a list "schedules": write --- between them`, d.ID)
		case d.Schedules != nil && beside(d.scheduleEntry) != "":
			return nil, fmt.Errorf(`%s stands beside the list "schedules": write it into each schedule`, beside(d.scheduleEntry))
		default:
			list = append(list, d)
		}
	}
}

// beside returns the first field that a document sets beside its list of schedules. Empty: none.
func beside(e scheduleEntry) string {
	for field, value := range reflect.ValueOf(e).Fields() {
		if !value.IsZero() {
			return field.Tag.Get("yaml")
		}
	}
	return ""
}

// piece is a part of a file that is valid YAML by itself.
type piece struct {
	text   []byte
	before int // lines before it
}

// pieceSize is the minimum length of a piece, except for the last one. A decoded piece takes 25
// times as much memory.
const pieceSize = 256 << 10

var (
	listBegins = regexp.MustCompile(`^schedules:\s*(#.*)?\s*$`)
	itemBegins = regexp.MustCompile(`^ *- `)
	blank      = regexp.MustCompile(`^\s*(#.*)?\s*$`)
)

// pieces splits a file where a document begins, or an item of its list "schedules" if the list is
// written as a block. Nothing else of YAML can stand at these places except quoted text that is not
// indented, which YAML forbids. An alias must be in the same piece as its anchor.
func pieces(in *bufio.Reader) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		var p piece
		item, begun := "", false // how an item of the list begins; the list has begun
		for n := 0; ; n++ {
			line, err := in.ReadBytes('\n')
			isDocument := bytes.HasPrefix(line, []byte("---"))
			isItem := item != "" && bytes.HasPrefix(line, []byte(item))
			if len(p.text) >= pieceSize && (isDocument || isItem) {
				if !yield(p, nil) {
					return
				}
				p = piece{before: n}
				if isItem {
					p = piece{[]byte("schedules:\n"), n - 1}
				}
			}
			p.text = append(p.text, line...)
			switch {
			case isDocument:
				item, begun = "", false
			case listBegins.Match(line):
				begun = true
			case begun && !blank.Match(line):
				item, begun = string(itemBegins.Find(line)), false
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(p, err)
					return
				}
				yield(p, nil)
				return
			}
		}
	}
}

// fileVersion is the version of the format of a file with schedules. It rises when an older file would mean something
// else.
type fileVersion struct{}

const theVersion = "1"

// UnmarshalYAML refuses another version.
func (*fileVersion) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.ScalarNode || node.Value != theVersion {
		return fmt.Errorf("line %d: %w", node.Line, errVersion)
	}
	return nil
}

var errVersion = errors.New("version must be " + theVersion + ", which is the version of files that this binary reads")

// UnmarshalYAML is UnmarshalText, and names the line.
func (d *fileDuration) UnmarshalYAML(node *yaml.Node) error { return unmarshalText(node, d) }

// UnmarshalYAML is UnmarshalText, and names the line.
func (t *fileTime) UnmarshalYAML(node *yaml.Node) error { return unmarshalText(node, t) }

func unmarshalText(node *yaml.Node, into encoding.TextUnmarshaler) error {
	if err := into.UnmarshalText([]byte(node.Value)); err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	return nil
}

// UnmarshalYAML converts YAML to JSON, and refuses what JSON cannot represent.
func (p *filePayload) UnmarshalYAML(node *yaml.Node) error {
	var v any
	if err := node.Decode(&v); err != nil { // first: it refuses aliases that grow without bounds
		return err
	}
	if err := notJSON(node, 0); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("line %d: payload: it cannot be written as JSON: keys must be text, and numbers finite", node.Line)
	}
	*p = text
	return nil
}

// notJSON returns an error for the first value of a payload that JSON would change.
func notJSON(node *yaml.Node, depth int) error {
	const deepest = 1000
	switch {
	case depth > deepest:
		return nil
	case node.Kind == yaml.AliasNode:
		return notJSON(node.Alias, depth+1)
	case node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp":
		return fmt.Errorf("line %d: JSON has no timestamps: write it in quotes", node.Line)
	}
	if err := sameNumber(node); err != nil {
		return err
	}
	for _, sub := range node.Content {
		if err := notJSON(sub, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// sameNumber refuses a number that YAML would change.
func sameNumber(node *yaml.Node) error {
	if value, changed := plainyaml.Changed(node); changed {
		return fmt.Errorf("line %d: the number %s would become %s: write it in decimal digits, or in quotes if it is a text",
			node.Line, node.Value, value)
	}
	return nil
}

// UnmarshalYAML decodes an int, and refuses one that YAML would change.
func (n *fileCount) UnmarshalYAML(node *yaml.Node) error {
	if err := sameNumber(node); err != nil {
		return err
	}
	return node.Decode((*int)(n))
}
