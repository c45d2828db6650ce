package expr_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
)

func TestCheckRefusesWhatIsNotOneExpressionOrMovesByItself(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a = b":                         "",
		"status in ('now', 'today')":    "",
		"note = $$;)$$ and x = E'\\')'": "",
		"now":                           "",
		"o.now = 3":                     "",
		"age(a, b) > interval '3 days'": "",
		"case when a then b else c end": "",
		"end_at":                        "",
		"":                              "empty",
		" -- nothing\n":                 "empty",
		"true) or (true":                "closes nothing",
		"(true":                         "missing",
		"a = 'x":                        "not closed",
		"a = $q$x":                      "not closed",
		"a; drop table b":               "semicolon",
		"case when a then b":            `"end" is missing`,
		"hold_until <= now()":           "now moves",
		"pg_catalog.now() > a":          "now moves",
		"a < CURRENT_DATE":              "current_date moves",
		"a < 'now'::timestamptz":        "now moves",
		"a < date 'today'":              "today moves",
		"age(a) > interval '1 day'":     "age moves",
		"exists (select from p where at < now())": "now moves",
		"random() < 0.5": "random moves",
	} {
		err := expr.Check(text)
		if got := err != nil; got != (want != "") || got && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSplitDividesAConditionAtTheOutermostLevel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		anyOf bool
		want  []string
	}{
		{"a", true, []string{"a"}},
		{"a or b OR c", true, []string{"a", "b", "c"}},
		{"a or b and c", true, []string{"a", "b and c"}},
		{"(a or b) and c", true, []string{"(a or b) and c"}},
		{"a and b and (c or d)", false, []string{"a", "b", "(c or d)"}},
		{"a and b or c", false, []string{"a and b or c"}},
		{"select a and b from shop.p where p.o = id and p.c", false, []string{"select a and b from shop.p where p.o = id and p.c"}},
		{" with x as (select 1) select a or b from x", true, []string{"with x as (select 1) select a or b from x"}},
		{"a between 1 and 2 and b", false, []string{"a between 1 and 2", "b"}},
		{"a between 1 and 2 or b", true, []string{"a between 1 and 2", "b"}},
		{"case when a or b then c end or d", true, []string{"case when a or b then c end", "d"}},
		{"a = ' or ' or exists (select from p where q or r)", true, []string{"a = ' or '", "exists (select from p where q or r)"}},
	} {
		if got := expr.Split(test.text, test.anyOf); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestAColumnThatIsComparedWithItselfIsFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`(SELECT p.at FROM shop.p p WHERE ((p.o = orders.id) AND (p.id = p.id)))`:               "id",
		`(SELECT p.at FROM shop.p p WHERE ((p.kind)::text = (p.kind)::text))`:                   "kind",
		`(SELECT p.at FROM shop.p p WHERE (p."Id" = p."Id"))`:                                   `"Id"`,
		`(SELECT p.at FROM shop.p p WHERE ((p.o = orders.id) AND (p.id = p.o)))`:                "",
		`(SELECT p.at FROM shop.p p WHERE ((p.id = (p.id + 1)) OR (1 = 1) OR ('a' = 'a')))`:     "",
		`(SELECT p.at FROM shop.p p JOIN shop.q q ON ((q.id = p.id)) WHERE (p.id = orders.id))`: "",
	} {
		if got := expr.ComparedWithItself(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestALengthIsSaidInWords(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]expr.Length{
		"after 0s":               {},
		"after 1 day":            {Days: 1},
		"before 3 days":          {Days: -3},
		"after 2 months 15 days": {Months: 2, Days: 15},
		"after 30 days 1h30m":    {Days: 30, Time: 90 * time.Minute},
		"before 1h30m":           {Time: -90 * time.Minute},
		"after 1 month -3 days":  {Months: 1, Days: -3},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAnExpressionDoesNotDependOnTheSession(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		`user = 'ada'`: true, `state = 1 or current_user = owner`: true, `"user" = 'ada'`: false, `orders.user = 'ada'`: false,
		`channel = 'user'`: false, `users > 0`: false,
	} {
		if err := expr.Check(text); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSubqueriesReturnsThoseThatAreInNoOther(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`coalesce((select max(a) from shop.p), ( with c as (select 1) select 1 ), b)`: {`select max(a) from shop.p`, `with c as (select 1) select 1 `},
		`exists (select from shop.p p where p.id in (select 2))`:                      {`select from shop.p p where p.id in (select 2)`},
		`select 1`:        {`select 1`},
		`(a + (b)) > '('`: nil,
	} {
		if got := expr.Subqueries(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestBareReturnsNamesWithoutATable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`exists (select from shop.p p where p.order_id = id)`:                      {"select", "from", "where", "id"},
		`(select make_interval(days => c.n) from shop.c)`:                          {"select"},
		`(select max(p.at) as a, max(p.at) b, p.c d, cast(e as date) from shop.p)`: {"select", "e", "as"},
		`(select f from shop.p join shop.q using (a, "B") where g = (h))`:          {"select", "f", "from", "g", "h"},
		`(select "At" from shop."Log" where "Log"."Id" = o."Id")`:                  {"select", `"At"`, "from"},
	} {
		if got := expr.Bare(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
