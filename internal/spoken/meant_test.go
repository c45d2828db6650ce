package spoken

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAMistypedNameHasTheNamesThatItMayBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typed string
		names []string
		want  []string
	}{
		{"afer", []string{"before", "every", "after"}, []string{"after"}},
		{"kye", []string{"key", "entity"}, []string{"key"}}, // two neighbours swapped
		{"crontb", []string{"crontab"}, []string{"crontab"}},
		{"Status", []string{"stats", "status"}, []string{"status"}},
		{"stat", []string{"stats", "status", "stops"}, []string{"stats", "status"}},
		{"order", []string{"order.paid", "order.late", "invoice"}, []string{"order.late", "order.paid"}}, // its beginning
		{"a name", []string{"a nam", "b"}, []string{"a nam"}},
		{"größe", []string{"grösse", "größer"}, []string{"größer"}},
		{"at", []string{"to", "every"}, nil}, // all of it differs
		{"x", []string{"y", "z"}, nil},
		{"shipped", []string{"notify"}, nil},
		{"", []string{"a", "ab"}, nil},
		{"job1", []string{"job2", "job3", "job4", "job5"}, []string{"job2", "job3", "job4"}},
		{"late", []string{"lat", "lat"}, []string{"lat"}},
	} {
		if diff := cmp.Diff(c.want, Nearest(c.typed, c.names)); diff != "" {
			t.Errorf("%q of %q (-want +got)\n%s", c.typed, c.names, diff)
		}
	}
}

func TestTheQuestionNamesWhatWasMeant(t *testing.T) {
	t.Parallel()
	if got, want := Meant("job1", []string{"job4", "job3", "job2", "jobs.old"}), ": did you mean job2, job3 or job4?"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Meant("stats", []string{"forecast"}); got != "" {
		t.Errorf("%q, want nothing", got)
	}
}
