package scheduleapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// ifMatch returns the version that a request changes. An empty header matches no version.
func ifMatch(r *http.Request) (int, error) {
	given := r.Header.Values("If-Match")
	text := strings.Join(given, ", ")
	if len(given) == 0 || text == "*" {
		return schedule.AnyVersion, nil
	}
	inner, ok := strings.CutPrefix(text, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	version, err := strconv.ParseUint(inner, 10, 31)
	if !ok || !ok2 || err != nil || version == 0 {
		return 0, web.NewProblem(http.StatusPreconditionFailed, `If-Match: want the ETag of the schedule, such as "3"`)
	}
	return int(version), nil
}

func setVersion(w http.ResponseWriter, s schedule.Schedule) {
	w.Header().Set("ETag", strconv.Quote(strconv.Itoa(s.Version)))
}
