package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// A private server runs on while its package is upgraded, and nobody but us says to restart it.
func TestAServerWhoseFilesWereReplacedUnderItIsToBeRestarted(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("read the status: %w", &pq.Error{
		Code: pqerror.UndefinedFile, Message: `could not load library "/usr/lib/postgresql/15/lib/plpgsql.so": undefined symbol: heap_datum_update_type`,
	})
	if got := hint(err); !strings.Contains(got, "restart it") || !strings.Contains(got, "prescient dev-db stop") {
		t.Errorf("hint %q", got)
	}
	missing := &pq.Error{Code: pqerror.UndefinedFile, Message: `could not open file "x": No such file or directory`}
	if got := hint(missing); got != "" {
		t.Errorf("hint %q", got)
	}
}
