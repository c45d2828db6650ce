package expr_test

import (
	"database/sql"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
)

func TestALengthBeyondTheLongestDurationDoesNotWrap(t *testing.T) {
	t.Parallel()
	for micros, want := range map[int64]*expr.Length{
		math.MaxInt32 * 60_000_000: nil, math.MinInt32 * 60_000_000: nil, math.MaxInt64: nil, math.MinInt64: nil,
		-90_000_000: {Time: -90 * time.Second}, 290 * 365 * 86_400_000_000: {Time: 290 * 365 * 24 * time.Hour},
	} {
		n := sql.NullString{String: "0", Valid: true}
		length := []sql.NullString{n, n, {String: strconv.FormatInt(micros, 10), Valid: true}}
		h := expr.ReadHeld(slices.Concat(length, length, make([]sql.NullString, 3)))[0]
		if !reflect.DeepEqual(h.After, h.Every) || h.Times != nil {
			t.Errorf("%d microseconds: %+v", micros, h)
		}
		got := h.After
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%d microseconds are %v, want %v", micros, got, want)
		}
	}
}
