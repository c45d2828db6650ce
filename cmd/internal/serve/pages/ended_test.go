package pages_test

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// "0s late" would mean a check in time. "jobs history" shows nothing there, either.
func TestARowThatNoCheckHasEndedHasNoTimesOfACheck(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	key := jobs.Key{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}
	s.Enqueue(jobs.Request{JobExec: key.JobExec, EntityName: key.EntityName, EntityKey: key.EntityKey}, s.Now().Add(time.Hour))
	s.must(pgsql.InTx(t.Context(), s.DB, func(tx *sqlx.Tx) error {
		_, err := s.Client.Cancel(t.Context(), tx, key)
		return err
	}))
	page := s.browser().login(story.ReadToken).get("/ended", http.StatusOK)
	if times := regexp.MustCompile(`<td class="n">[^<]*</td>`).FindAllString(page, -1); len(times) != 2 || times[0] != `<td class="n">-</td>` || times[1] != times[0] {
		t.Errorf("the times of a cancelled check: %q", times)
	}
}
