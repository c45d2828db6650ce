package pages_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/cmd/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
)

func TestAServerThatMayNotActSaysSo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Enqueue(jobs.FutureJob{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}, s.Now().Add(2*time.Hour))
	_, err := s.DB.Exec(`
		create function prescient.refuse() returns trigger language plpgsql as $$ begin raise insufficient_privilege; end $$;
		create trigger refuse before insert on prescient.action execute function prescient.refuse()`)
	s.must(err)
	b := s.browser().login(story.OperatorToken)
	s.has(b.submit(b.get("/do/cancel?name=order&key=1", http.StatusOK), nil, http.StatusForbidden), board.NoRights)
}

func TestACountThatWasNotFinishedSaysSo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	_, err := s.DB.Exec(`
		insert into prescient.event_outbox (id, source, type, data) select i::text, 'shop', 'sold', '{}' from generate_series(1, 1001) as i;
		insert into prescient.event_consumer (name, mark, position) values ('mailer', '3', 0)`)
	s.must(err)
	s.has(s.browser().login(story.ReadToken).get("/events", http.StatusOK), "1,000 or more")
}
