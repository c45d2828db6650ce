package api

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
)

// appliesARule applies a rule to a table in which one of three orders has been shipped.
func (w *world) appliesARule() {
	w.t.Helper()
	path := w.t.TempDir() + "/rules.yaml"
	w.must(os.WriteFile(path, []byte(`rules:
  - name: order.late
    table: public.orders
    key: id
    since: placed_at
    done: shipped_at
    steps: [{after: 1h, event: order.late}, {after: 2d, name: lost, sql: "select $key"}]
`), 0o600))
	_, err := w.DB.ExecContext(w.t.Context(), `create table orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz)`)
	w.must(err)
	w.Rules(path)
	_, err = w.DB.ExecContext(w.t.Context(), `insert into orders select n, $1, null from generate_series(1, 3) n`, w.Now())
	w.must(err)
	_, err = w.DB.ExecContext(w.t.Context(), `update orders set shipped_at = placed_at where id = 2`)
	w.must(err)
}

func TestARuleIsReadWithItsNumbersPausedAndRemoved(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.appliesARule()
	list := get[board.Rules](w, "/rules").Rules
	if len(list) != 1 || list[0].Name != "order.late" || list[0].Table != "public.orders" || list[0].State != "active" || list[0].Times() != "after 1h; after 2d" {
		t.Errorf("%+v", list)
	}
	v := get[board.Rule](w, "/rules/order.late")
	if v.Summary.Waiting != 3 || v.Summary.NextSlot == nil || len(v.Ahead) != 1 || v.Ahead[0].Rows != 3 || len(v.Fired) != 0 || v.Steps[1].Does() != "sql select $key" {
		t.Errorf("%+v", v)
	}
	w.RunFor(90 * time.Minute)
	paused := w.do("pause-job", `{"job_exec": "order.late"}`)
	v = get[board.Rule](w, "/rules/order.late?acted="+strconv.FormatInt(paused.ID, 10))
	if v.PausedAt == nil || v.Word() != "paused" || v.Summary.Waiting != 2 || len(v.Fired) != 1 || v.Fired[0].Fired != 2 {
		t.Errorf("%+v", v)
	}
	w.do("resume-job", `{"job_exec": "order.late"}`)

	plan := w.preview("remove-rule", `{"name": "order.late"}`)
	if !strings.Contains(plan.Text, "cancels its 2 waiting rows") || len(plan.Warnings) != 2 {
		t.Errorf("%+v", plan)
	}
	done := w.do("remove-rule", `{"name": "order.late"}`)
	if done.Outcome != board.Succeeded || done.Result != "order.late is removed: 2 waiting rows were cancelled" {
		t.Errorf("%+v", done)
	}
	acted := "?acted=" + strconv.FormatInt(done.ID, 10)
	if list := get[board.Rules](w, "/rules"+acted).Rules; len(list) != 0 {
		t.Errorf("%+v", list)
	}
	for _, target := range []string{"/rules/order.late" + acted, "/rules/none"} {
		if answer := w.send("GET", Prefix+target, nil); answer.Code != 404 {
			t.Errorf("%s: %d %s", target, answer.Code, answer.Body)
		}
	}
	if answer := w.post("remove-rule", "preview=true", `{"name": "none"}`); answer.Code != 404 {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
