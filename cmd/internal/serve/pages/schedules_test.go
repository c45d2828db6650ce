package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// The row keeps the error of an earlier try. "schedules list" does not show it, either.
func TestTheListOfSchedulesHasTheErrorsOfLastTriesOnly(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for _, id := range []string{"recovered", "failing"} {
		_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: id, Crontab: "@daily"})
		s.must(err)
		s.DB.MustExec(`update prescient.future_job set last_error = $1 || ' text', error_count = $2 where entity_key = $1`,
			id, strings.Count(id, "failing"))
	}
	page := s.browser().login(story.ReadToken).get("/schedules", http.StatusOK)
	s.has(page, "failing text")
	if strings.Contains(page, "recovered text") {
		t.Error("the list has an error of an earlier try")
	}
}
