package seq_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/prescient-go/prescient/internal/seq"
)

// numbers is a list of the numbers from 1 to last. It notes how many are asked for at once.
type numbers struct {
	last  int
	fails int // the number before which the list fails; 0: none
	asked []int
}

var errRead = errors.New("cannot read")

func (l *numbers) page(after, limit int) (page []int, next int, err error) {
	l.asked = append(l.asked, limit)
	for n := after + 1; n <= l.last && len(page) < limit; n++ {
		if n == l.fails {
			return nil, 0, errRead
		}
		page = append(page, n)
	}
	if after+len(page) < l.last {
		next = after + len(page)
	}
	return page, next, nil
}

func TestPagesReturnsEachRowOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list              numbers
		after, limit      int
		first, last, rows int
		asked             []int
	}{
		"no rows":              {list: numbers{}, asked: []int{1000}},
		"a page":               {list: numbers{last: 1000}, first: 1, last: 1000, rows: 1000, asked: []int{1000}},
		"several pages":        {list: numbers{last: 2500}, first: 1, last: 2500, rows: 2500, asked: []int{1000, 1000, 1000}},
		"behind a position":    {list: numbers{last: 2500}, after: 1700, first: 1701, last: 2500, rows: 800, asked: []int{1000}},
		"a limit":              {list: numbers{last: 2500}, limit: 7, first: 1, last: 7, rows: 7, asked: []int{7}},
		"a limit beyond pages": {list: numbers{last: 2500}, limit: 1200, first: 1, last: 1200, rows: 1200, asked: []int{1000, 200}},
		"a limit of pages":     {list: numbers{last: 2500}, limit: 2000, first: 1, last: 2000, rows: 2000, asked: []int{1000, 1000}},
		"a limit beyond all":   {list: numbers{last: 5}, limit: 9, first: 1, last: 5, rows: 5, asked: []int{9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := seq.Collect(seq.Pages(c.after, c.limit, c.list.page))
			if err != nil || len(got) != c.rows || c.rows > 0 && (got[0] != c.first || got[c.rows-1] != c.last) {
				t.Errorf("%d rows, %v", len(got), err)
			}
			if !slices.Equal(c.list.asked, c.asked) {
				t.Errorf("asked for pages of %v, want %v", c.list.asked, c.asked)
			}
		})
	}
}

func TestPagesEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	list := numbers{last: 2500, fails: 1200}
	got, err := seq.Collect(seq.Pages(0, 0, list.page))
	if !errors.Is(err, errRead) || len(got) != 1000 || len(list.asked) != 2 {
		t.Errorf("%d rows, %v, pages of %v", len(got), err, list.asked)
	}
}

func TestPagesReadsNoFurtherThanItsCaller(t *testing.T) {
	t.Parallel()
	list := numbers{last: 2500}
	for n, err := range seq.Pages(0, 0, list.page) {
		if err != nil {
			t.Fatal(err)
		}
		if n == 1000 {
			break
		}
	}
	if len(list.asked) != 1 {
		t.Errorf("pages of %v", list.asked)
	}
}

// A server that measures large rows measures each that it is asked for.
func TestPagesAskForFewRowsWhereFewMakeAPage(t *testing.T) {
	t.Parallel()
	var asked []int
	rows, err := seq.Collect(seq.Pages(0, 0, func(after, limit int) ([]int, int, error) {
		asked = append(asked, limit)
		if after == 6 {
			return []int{1}, 0, nil
		}
		return []int{1, 1}, after + 2, nil
	}))
	if want := []int{1000, 4, 4, 4}; err != nil || len(rows) != 7 || !slices.Equal(asked, want) {
		t.Errorf("%d rows, %v; it asked for %v, want %v", len(rows), err, asked, want)
	}
}

func TestMapIsNeverNil(t *testing.T) {
	t.Parallel()
	double := func(n int) string { return string(rune('a' + 2*n)) }
	if got := seq.Map([]int{1, 0}, double); !slices.Equal(got, []string{"c", "a"}) {
		t.Errorf("%q", got)
	}
	if got := seq.Map(nil, double); got == nil || len(got) != 0 {
		t.Errorf("%#v", got)
	}
}
