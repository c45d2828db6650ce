package httpapi_test

import "testing"

func TestTheBoundsOfAScheduleAreTakenAndTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "0 9 * * *", "deadline": "1m", "deadline_from": "instant",
		"start": "2030-04-01T00:00:00Z", "end": "2031-01-01T00:00:00Z", "max_runs": 5, "exclude": ["sat,sun", "2030-12-24..2030-12-26"]}`)
	got := w.want(200, "GET", "/schedules/a", "")
	for field, want := range map[string]any{
		"deadline_from": "instant", "start": "2030-04-01T00:00:00Z", "end": "2031-01-01T00:00:00Z", "max_runs": 5.0, "next": "2030-04-01T09:00:00Z",
	} {
		if got[field] != want {
			t.Errorf("%s is %v, want %v", field, got[field], want)
		}
	}
	if list, ok := got["exclude"].([]any); !ok || len(list) != 2 || list[0] != "sat,sun" {
		t.Errorf("exclude is %v", got["exclude"])
	}
	w.want(422, "POST", "/schedules", `{"id": "b", "crontab": "@daily", "exclude": ["sunday"]}`)
}
