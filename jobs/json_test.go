package jobs_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// filled returns a value of which no field is the zero value.
func filled[T any](t *testing.T) (v T) {
	t.Helper()
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch x := v.Addr().Interface().(type) {
		case *time.Time:
			*x = time.Date(2030, 3, 1, 12, 0, 0, 123456000, time.UTC)
			return
		case *json.RawMessage:
			*x = json.RawMessage(`{"a":1}`)
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		case reflect.String:
			v.SetString("x")
		case reflect.Int, reflect.Int64:
			v.SetInt(7)
		case reflect.Bool:
			v.SetBool(true)
		default:
			t.Fatalf("no value of %s is known", v.Type())
		}
	}
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func TestTheJSONOfWhatIsReadIsWhole(t *testing.T) {
	t.Parallel()
	whole(t, filled[jobs.FutureJob](t))
	whole(t, filled[admin.HistoryRow](t))
	whole(t, filled[admin.TimelineEntry](t))
}

// whole fails the test if the JSON of a value lacks a field, or names one in another way than SQL does.
func whole[T any](t *testing.T, v T) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, back); diff != "" {
		t.Errorf("%s:\n%s", text, diff)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if !regexp.MustCompile(`^[a-z_]+$`).MatchString(name) {
			t.Errorf("%T has a field %q", v, name)
		}
	}
}
