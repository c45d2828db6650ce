package metrics

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Values that are counted many at once give the same result as Prometheus' own histogram, which
// counts them one by one.
func TestAHistogramIsThatOfPrometheus(t *testing.T) {
	t.Parallel()
	mine := newHistogram(durationBounds)
	oracle := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "check_seconds", Help: "-", Buckets: durationBounds})
	random := rand.New(rand.NewPCG(1, 2))
	onBounds := []time.Duration{0, time.Millisecond, time.Second, 5 * time.Minute, time.Hour}
	for i := range 1000 {
		value := time.Duration(random.ExpFloat64() * float64(20*time.Second))
		if i%3 == 0 {
			value = onBounds[random.IntN(len(onBounds))]
		}
		n := random.Int64N(5)
		mine.add(value, n)
		for range n {
			oracle.Observe(value.Seconds())
		}
	}
	approximately := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-3 && b-a < 1e-3 })
	if diff := cmp.Diff(numbers(t, oracle), numbers(t, mine.metric(oracle.Desc())), approximately); diff != "" {
		t.Error(diff)
	}
}

// numbers returns the count, the sum and the buckets of a histogram.
func numbers(t *testing.T, m prometheus.Metric) []float64 {
	t.Helper()
	var written dto.Metric
	if err := m.Write(&written); err != nil {
		t.Fatal(err)
	}
	h := written.GetHistogram()
	list := []float64{float64(h.GetSampleCount()), h.GetSampleSum()}
	for _, b := range h.GetBucket() {
		list = append(list, b.GetUpperBound(), float64(b.GetCumulativeCount()))
	}
	return list
}
