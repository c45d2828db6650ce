package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOrdersAreReadWhateverTheOrderOfColumnsAndLines(t *testing.T) {
	t.Parallel()
	text := "note,shipped_at,order_id,placed_at\r\n" +
		"\"a, b\",,2,2024-03-01T12:00:00.0000001+01:00\r\n" +
		"\r\n" +
		",2024-01-01T00:00:00Z,1,2024-02-01T00:00:00.999999Z\r\n"
	got, err := readOrders(strings.NewReader(text))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	want := time.Date(2024, time.March, 1, 11, 0, 0, 1000, time.UTC)
	if got[0].id != "2" || got[0].placedAt != want || got[0].shippedAt.Valid {
		t.Errorf("%+v, want it placed at %s", got[0], want)
	}
	if got[1].id != "1" || !got[1].shippedAt.Time.Before(got[1].placedAt) {
		t.Errorf("%+v", got[1])
	}
}

func TestABadFileIsRefusedWithTheNumbersOfItsLines(t *testing.T) {
	t.Parallel()
	const header = "order_id,placed_at,shipped_at\n"
	const good = "1,2024-01-01T00:00:00Z,\n"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty file":         {"", []string{"line 1: the file is empty"}},
		"byte order mark":    {"\uFEFF" + header + good, []string{"line 1: the file begins with a byte order mark"}},
		"missing columns":    {"order_id,placed\n", []string{"line 1: the header has no column placed_at", "line 1: the header has no column shipped_at"}},
		"a column twice":     {"order_id,placed_at,shipped_at,order_id\n", []string{"line 1: the header has more than one column order_id"}},
		"duplicate order_id": {header + good + "2,2024-01-01T00:00:00Z,\n" + good, []string{`line 4: order_id "1": line 2 has it, too`}},
		"empty order_id":     {header + ",2024-01-01T00:00:00Z,\n", []string{"line 2: order_id: must not be empty"}},
		"blank order_id":     {header + "  ,2024-01-01T00:00:00Z,\n", []string{"line 2: order_id: must not be empty"}},
		"long order_id":      {header + strings.Repeat("x", 501) + ",2024-01-01T00:00:00Z,\n", []string{"line 2: order_id: must be at most 500 bytes, is 501"}},
		"NUL in order_id":    {header + "a\x00,2024-01-01T00:00:00Z,\n", []string{"line 2: order_id: must be UTF-8"}},
		"bytes in order_id":  {header + "\xff,2024-01-01T00:00:00Z,\n", []string{"line 2: order_id: must be UTF-8"}},
		"no placed_at":       {header + good + "2,,\n", []string{`line 3: placed_at "": must be a time of RFC 3339`}},
		"no zone":            {header + "1,2024-01-01T00:00:00,\n", []string{"line 2: placed_at"}},
		"no such day":        {header + "1,2023-02-29T00:00:00Z,\n", []string{"line 2: placed_at"}},
		"a date":             {header + "1,2024-01-01T00:00:00Z,2024-01-02\n", []string{`line 2: shipped_at "2024-01-02": must be a time of RFC 3339`}},
		"a blank time":       {header + "1,2024-01-01T00:00:00Z, \n", []string{"line 2: shipped_at"}},
		"too early":          {header + "1,1969-12-31T23:59:59Z,\n", []string{"line 2: placed_at", "from 1970-01-01"}},
		"the zero time":      {header + "1,2024-01-01T00:00:00Z,0001-01-01T00:00:00Z\n", []string{"line 2: shipped_at", "from 1970-01-01"}},
		"too late":           {header + "1,9999-01-01T00:00:00Z,\n", []string{"line 2: placed_at"}},
		"a field too many":   {header + "1,2024-01-01T00:00:00Z,,\n", []string{"line 2: it has 4 fields, the header has 3"}},
		"a field too few":    {header + "1,2024-01-01T00:00:00Z\n", []string{"line 2: it has 2 fields, the header has 3"}},
		"an open quote":      {header + good + "\"2,2024-01-01T00:00:00Z,\n", []string{"line 3: ", `"`}},
		"a bare quote":       {header + "a\"b,2024-01-01T00:00:00Z,\n,2024-01-01T00:00:00Z,\n", []string{"line 2: bare \"", "line 3: order_id"}},
		"after a long field": {header + "\"a\nb\",2024-01-01T00:00:00Z,\n2,x,y\n", []string{"line 4: placed_at", "line 4: shipped_at"}},
		"several lines":      {header + ",x,\n2,2024-01-01T00:00:00Z\n", []string{"nothing was run; mistakes: 3", "line 2: order_id", "line 2: placed_at", "line 3: it has 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readOrders(strings.NewReader(test.text))
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in:\n%v", want, err)
				}
			}
		})
	}
}

func TestOfManyMistakesTheFirstAreListed(t *testing.T) {
	t.Parallel()
	text := "order_id,placed_at,shipped_at\n"
	for i := range 100 {
		text += fmt.Sprintf("%d,x,\n", i)
	}
	_, err := readOrders(strings.NewReader(text))
	if err == nil || strings.Count(err.Error(), "\n") != maxListed+1 || !strings.HasSuffix(err.Error(), "and 80 more") {
		t.Errorf("%v", err)
	}
}
