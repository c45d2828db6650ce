package spoken_test

import (
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/spoken"
)

func TestManyChecksThatAskForAnotherAreThreeLines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entries string // a letter for each: n asks for another check, others are something else; | begins another row
		want    string
	}{
		"nothing":     {"", ""},
		"few":         {"ennnnnw", "e n n n n n w"},
		"many":        {"ennnnnnw", "e n nnnn n w"},
		"interrupted": {"nnnnnnnfnnnnn", "n nnnnn n f n n n n n"},
		"two rows":    {"nnnn|nnnn", "n n n n n n n n"},
		"at the end":  {"nnnnnnnn", "n nnnnnn n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var letters []byte
			var ids []int64
			id := int64(1)
			for _, c := range []byte(test.entries) {
				if c == '|' {
					id++
					continue
				}
				letters, ids = append(letters, c), append(ids, id)
			}
			var lines []string
			for first, last := range spoken.Stretches(len(letters), func(i int) (int64, bool) { return ids[i], letters[i] == 'n' }) {
				lines = append(lines, string(letters[first:last+1]))
			}
			if got := strings.Join(lines, " "); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
