package board_test

import (
	"errors"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
)

// A pattern of the settings whose stores could not be listed for a moment is named beside them.
func TestAPathBelongsToTheStoreWithTheLongestName(t *testing.T) {
	t.Parallel()
	var stores board.Stores
	pattern, tenant := errors.New("the database does not answer"), errors.New("it is being opened")
	stores.SetDown("tenants", pattern)
	stores.SetDown("tenants/tenant_42", tenant)
	for path, want := range map[string]struct {
		store string
		why   error
	}{
		"tenants/tenant_42": {"tenants/tenant_42", tenant}, "tenants/tenant_42/slots/": {"tenants/tenant_42", tenant},
		"tenants": {"tenants", pattern}, "tenants/tenant_4/": {"tenants", pattern}, "tenant/": {}, "": {},
	} {
		for range 20 {
			if store, _, why := stores.Of(path); store != want.store || !errors.Is(why, want.why) {
				t.Fatalf("%q belongs to %q (%v), want %q", path, store, why, want.store)
			}
		}
	}
}
