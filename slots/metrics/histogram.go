package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The upper bounds of the buckets, in seconds. Those of lateness include usual widths, with which an alert compares it.
var (
	latenessBounds = []float64{
		1, 5, 15, 60, 120, 300, 600, 900, 1200, 1800, 3600, 2 * 3600, 4 * 3600, 6 * 3600, 8 * 3600,
		12 * 3600, 24 * 3600, 48 * 3600,
	}
	durationBounds = []float64{.001, .005, .025, .1, .5, 1, 5, 15, 60, 300}
	runBounds      = []float64{.1, .5, 1, 5, 15, 60, 300, 900, 3600}
)

// histogram counts many equal values at once, which prometheus.Histogram cannot.
type histogram struct {
	bounds []float64
	counts []uint64 // of the values up to each bound and above the one before
	count  uint64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds))}
}

// add counts a value n times.
func (h *histogram) add(value time.Duration, n int64) {
	seconds := value.Seconds()
	if i, _ := slices.BinarySearch(h.bounds, seconds); i < len(h.bounds) {
		h.counts[i] += uint64(n)
	}
	h.count += uint64(n)
	h.sum += seconds * float64(n)
}

func (h *histogram) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(h.bounds))
	var below uint64
	for i, bound := range h.bounds {
		below += h.counts[i]
		buckets[bound] = below
	}
	return prometheus.MustNewConstHistogram(desc, h.count, h.sum, buckets, labels...)
}
