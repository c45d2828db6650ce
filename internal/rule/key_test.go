package rule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestAKeyOfSeveralColumnsIsTheTextThatItsPartsComeFrom(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][]string{
		"7/3": {"7", "3"}, "/": {"", ""}, "a%2Fb/50%25": {"a/b", "50%"}, "50%252F/x y": {"50%2F", "x y"}, "%2f/%": {"%2f", "%"},
		"7": nil, "7/3/1": nil, "": nil,
	} {
		got, ok := rule.ParseKey(key, 2)
		if !slices.Equal(got, want) || ok != (want != nil) {
			t.Errorf("%q: %q, %t, want %q", key, got, ok, want)
		}
	}
	if got, ok := rule.ParseKey("a/b%2F", 1); !ok || !slices.Equal(got, []string{"a/b%2F"}) {
		t.Errorf("a single column: %q, %t", got, ok)
	}
	db := pgtest.New(t)
	for _, parts := range [][]string{{"a/b", "50%"}, {"%2F", "/"}, {"", "%25"}, {"x\n'\\", "é"}} {
		var key string
		text := rule.KeyText("r", rule.Texts{"a", "b"}, rule.Texts{"text", "character varying(9)"})
		if err := db.Get(&key, "select "+text+` from (values ($1::text, $2::text)) as r (a, b)`, parts[0], parts[1]); err != nil {
			t.Fatal(err)
		}
		if got, ok := rule.ParseKey(key, 2); !ok || !slices.Equal(got, parts) {
			t.Errorf("%q: %q, want %q", key, got, parts)
		}
	}
}

func TestAStatementNamesTheColumnsOfAKey(t *testing.T) {
	t.Parallel()
	file := func(key, statement string) string {
		return "rules:\n- name: r\n  table: shop.line\n  key: " + key + "\n  since: a\n  done: b\n  steps: [{after: 1h, sql: '" + statement + "'}]\n"
	}
	for _, c := range []struct{ key, statement, want string }{
		{"[order_id, line]", "select $key.order_id, $key.line", ""},
		{`[order_id, '"Line"']`, `select $key.ORDER_ID, $key."Line"`, ""},
		{"[id]", "select $key, $key.id", ""},
		{"id", "select $key.id", ""},
		{"[order_id, line]", "select $key", "line 7: rule r: steps[1].sql: there is no value $key, because the key has several columns: want $key.order_id, $key.line"},
		{"[order_id, line]", "select $key.other", "there is no value $key.other, because the key has several columns: want $key.order_id, $key.line"},
		{"id", "select $key.other", "there is no value $key.other: want $key, $since"},
	} {
		_, err := rule.Parse(strings.NewReader(file(c.key, c.statement)))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %s: error %v, want %q", c.key, c.statement, err, c.want)
		}
	}
	a := rule.Applied{
		Rule: rule.Rule{Steps: []rule.Step{{SQL: `select $key."Line", $key.order_id, $since, $key.order_id`}}},
		Key:  rule.Texts{`"order_id"`, `"Line"`}, KeyType: rule.Texts{"bigint", "timestamp(3) without time zone"},
	}
	query, written := a.Query(0)
	if diff := cmp.Diff("select ($1::text::timestamp(3) without time zone), ($2::text::bigint), ($3::text::timestamptz), ($2::text::bigint)", query); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.Rule.Steps[0].SQL, written(query)); diff != "" {
		t.Error(diff)
	}
}

func TestTheJSONOfAKeyOfOneColumnIsAText(t *testing.T) {
	t.Parallel()
	one, err := rule.Parse(strings.NewReader("rules:\n- {name: r, table: s.t, key: [id], since: a, done: b, steps: [{after: 1h, event: e}]}"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := rule.Parse(strings.NewReader("rules:\n- {name: r, table: s.t, key: id, since: a, done: b, steps: [{after: 1h, event: e}]}"))
	if diff := cmp.Diff(other, one); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if text, err := one.Rules[0].Key.MarshalJSON(); err != nil || string(text) != `"id"` {
		t.Errorf("%s, %v", text, err)
	}
}
