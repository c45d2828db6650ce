package pages

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	tree "text/template/parse"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/web"
)

// views are the types that the pages show, by the name of their template.
var views = map[string]any{
	"actions": actionsPage{}, "alerts": alertsPage{}, "advice": board.JobAdvice{}, "checks": checksPage{}, "entity": entityPage{}, "error": "", "events": eventsPage{},
	"form": formPage{}, "job": jobPage{}, "jobs": jobsPage{}, "ledger": ledgerPage{}, "login": loginPage{}, "overview": overviewPage{},
	"plan": formPage{}, "rule": rulePage{}, "rules": rulesPage{}, "schedule": board.Schedule{}, "schedules": schedulesPage{}, "slot": slotPage{}, "stores": storesPage{}, "which": whichPage{},
}

// Each page is rendered from values of its type: pointers are nil or not, lists are empty or long,
// and texts are those that the templates compare with, until each branch of each template has been
// taken.
func TestEveryBranchOfEveryTemplateCanBeRendered(t *testing.T) {
	t.Parallel()
	s := parse()
	all := branches{where: map[string]string{}, taken: map[string]bool{}}
	texts := []string{"", "text", "Asia/Tokyo", "gave-up", "cancelled"}
	for name, page := range s.all {
		if views[name] == nil {
			t.Errorf("no view of page %s is known", name)
		}
		for _, part := range page.Templates() {
			if part.Tree != nil {
				texts = append(texts, all.mark(part.Tree.Root, part.Tree.ParseName)...)
			}
		}
	}
	slices.Sort(texts) // which maps give in any order
	f := filler{rand.New(rand.NewPCG(1, 2)), slices.Compact(texts)}
	for range 300 {
		for _, name := range slices.Sorted(maps.Keys(views)) {
			data := map[string]any{
				"Title": f.text(), "Section": sections[f.IntN(len(sections))].Name, "Page": f.some(reflect.TypeOf(views[name])).Interface(), "Search": search{}, "Sections": sections,
				"Visitor": web.Who{MayRead: f.IntN(3) > 0, MayChange: f.IntN(3) > 1, Name: "ann"}, "LoggedIn": f.IntN(2) == 0, "FormToken": "token", "Path": "/", "Live": "/live", "Sort": f.text(), "Desc": f.text(), "Version": "1",
				"Store": f.text(), "Schema": f.text(), "Top": "/", "State": verdict{Count: f.IntN(2)},
			}
			if f.IntN(2) == 0 {
				data["Now"] = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
			}
			var html strings.Builder
			if err := s.all[name].ExecuteTemplate(&html, "layout", data); err != nil {
				t.Fatalf("page %s: %v", name, err)
			}
			for _, m := range marked.FindAllString(html.String(), -1) {
				all.taken[m] = true
			}
		}
	}
	for where, branch := range all.where {
		if !all.taken[branch] {
			t.Errorf("no render takes the branch at %s", where)
		}
	}
	if len(all.where) < 150 {
		t.Errorf("%d branches were found", len(all.where))
	}
}

// branches are those of all templates: where each is, with its mark, and which marks were seen.
type branches struct {
	where map[string]string
	taken map[string]bool
}

var (
	marked = regexp.MustCompile(`branch\d+x`)
	quoted = regexp.MustCompile(`"([^"]+)"`)
)

// mark puts a mark into each branch below a list of a file, and returns the texts that the
// conditions of these compare with.
func (b branches) mark(list *tree.ListNode, file string) (texts []string) {
	for _, node := range list.Nodes {
		var is *tree.BranchNode
		switch n := node.(type) {
		case *tree.IfNode:
			is = &n.BranchNode
		case *tree.RangeNode:
			is = &n.BranchNode
		case *tree.WithNode:
			is = &n.BranchNode
		default:
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(is.Pipe.String(), -1) {
			texts = append(texts, m[1])
		}
		for i, branch := range []*tree.ListNode{is.List, is.ElseList} {
			if branch == nil {
				continue
			}
			where := fmt.Sprintf("%s, byte %d: %d of {{%s}}", file, is.Pos, i+1, is.Pipe)
			if b.where[where] == "" {
				b.where[where] = fmt.Sprintf("branch%dx", len(b.where))
			}
			texts = append(texts, b.mark(branch, file)...)
			branch.Nodes = append([]tree.Node{&tree.TextNode{NodeType: tree.NodeText, Text: []byte(b.where[where])}}, branch.Nodes...)
		}
	}
	return texts
}

// filler makes values.
type filler struct {
	*rand.Rand
	texts []string
}

func (f filler) text() string { return f.texts[f.IntN(len(f.texts))] }

func (f filler) some(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	f.fill(v)
	return v
}

// fill sets all that a template can see of a value.
func (f filler) fill(v reflect.Value) {
	if v.CanInterface() {
		switch value := v.Addr().Interface().(type) {
		case *time.Time:
			*value = []time.Time{{}, time.Date(2030, time.March, 1, 12, 0, f.IntN(2), 0, time.UTC)}[f.IntN(2)]
			return
		case *json.RawMessage:
			*value = []json.RawMessage{nil, json.RawMessage(`{}`)}[f.IntN(2)]
			return
		case *error:
			*value = []error{nil, errors.New("an error")}[f.IntN(2)]
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() || field.Anonymous {
				f.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if f.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		n := []int{0, 1, 7}[f.IntN(3)]
		if v.Type() == reflect.TypeFor[[]board.Event]() && f.IntN(4) == 0 {
			n = listed // a whole page, which another follows
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, 100_000}[f.IntN(3)])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.IntN(3)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.IntN(3)))
	}
}
