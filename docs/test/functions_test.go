package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

var mayCall = regexp.MustCompile(`(?s)\('prescient_app', array\[(.*?)\]`)

func TestThePageHasEachFunctionThatAnApplicationMayCallItsParametersAndItsColumns(t *testing.T) {
	t.Parallel()
	roles, err := os.ReadFile("../sql/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	granted := mayCall.FindSubmatch(roles)
	if granted == nil {
		t.Fatal("roles.sql grants no functions to prescient_app")
	}
	names := strings.FieldsFunc(string(granted[1]), func(r rune) bool { return strings.ContainsRune("', \n", r) })
	page, err := os.ReadFile("functions.md")
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	for _, name := range append(names, "why") {
		if !regexp.MustCompile("`" + name + "[`(]").Match(page) {
			t.Errorf("functions.md lacks %s", name)
		}
		var parameters []string
		err := db.Select(&parameters, `
			select distinct u.name
			from pg_proc p
			cross join unnest(p.proargnames, p.proargmodes) as u (name, mode)
			where p.pronamespace = 'prescient'::regnamespace and p.proname = $1
				and not (p.proname ~ '^slot_')`, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, parameter := range parameters {
			if !strings.Contains(string(page), "`"+parameter+"`") {
				t.Errorf("functions.md does not explain %s, a parameter or a column of %s", parameter, name)
			}
		}
	}
}
