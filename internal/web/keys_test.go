package web_test

import (
	"testing"

	"github.com/prescient-go/prescient/internal/web"
)

func TestATokenHasTheRightsOfItsList(t *testing.T) {
	t.Parallel()
	const operator, reader, both = "0123456789abcdef-operator", "0123456789abcdef-reader", "0123456789abcdef-both"
	keys, err := web.NewNamedKeys([]string{operator, "ops:" + both}, []string{"watch:" + reader, both})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]web.Who{
		operator: {Name: "operator", MayRead: true, MayChange: true, Token: 1},
		both:     {Name: "ops", MayRead: true, MayChange: true, Token: 2},
		reader:   {Name: "watch", MayRead: true, Token: 3},
	} {
		if who, known := keys.Find(token); !known || who != want {
			t.Errorf("%s is that of %#v, known %t, want %#v", token, who, known, want)
		}
	}
	if who, known := keys.Find(operator + "x"); known {
		t.Errorf("an unknown token is that of %#v", who)
	}
}
