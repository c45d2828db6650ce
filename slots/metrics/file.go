package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// WriteFile writes the metrics to a file for node_exporter's textfile collector, which reads files
// whose name ends in .prom. Call it once, at the end: it adds counters and histograms to those in
// the file. It keeps what the file says of the other kind of run, and of other stores that the
// caller names, or whose name begins with a prefix such as "tenants/". It drops every other store,
// because no process would update its figures.
//
// It replaces the file as a whole. One writer at a time locks the directory, which must be on a
// local file system. Returns an error, and leaves the file alone, if the file holds anything but
// metrics.
func (m *Metrics) WriteFile(path string, others ...string) error {
	registry := prometheus.NewRegistry()
	err := m.register(registry)
	if err == nil {
		err = m.writeFile(path, registry, others)
	}
	if err != nil {
		return fmt.Errorf("write metrics file %s: %w", path, err)
	}
	return nil
}

func (m *Metrics) writeFile(path string, from prometheus.Gatherer, others []string) error {
	families, err := from.Gather()
	if err != nil {
		return err
	}
	dir, err := lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // which also unlocks it
	old, err := readFile(path)
	if err != nil {
		return err
	}
	for _, family := range old {
		family.Metric = slices.DeleteFunc(family.Metric, func(metric *dto.Metric) bool {
			return !m.keeps(label(metric, "store"), others)
		})
	}
	var text bytes.Buffer
	for _, family := range m.merge(old, families) {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return err
		}
	}
	return replace(path, text.Bytes())
}

// lock locks a directory until it is closed. It waits for a limited time, because the process that
// holds the lock may be stuck.
func lock(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for began := elapsed.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, syscall.EWOULDBLOCK) && time.Since(began) > patience:
			err = fmt.Errorf("another process has locked the directory for %s", patience)
		case errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR):
			continue
		default:
			err = fmt.Errorf("lock its directory, which must be on a local file system: %w", err)
		}
		return nil, errors.Join(err, dir.Close())
	}
}

// replace replaces a file as a whole or not at all.
func replace(path string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(0o644) // node_exporter is another user
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// readFile reads what WriteFile has written. Returns no metrics if there is no file.
func readFile(path string) (map[string]*dto.MetricFamily, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("the file does not hold metrics, so it was not replaced: "+
			"name another file, or remove this one: %w", err)
	}
	for name := range families {
		if !strings.HasPrefix(name, "prescient_") {
			return nil, fmt.Errorf("it holds %s, which prescient did not write, so it was not replaced: name another file", name)
		}
	}
	return families, nil
}

// keeps reports whether a file keeps the metrics of a store.
func (m *Metrics) keeps(store string, others []string) bool {
	return store == m.store || store != "" && slices.ContainsFunc(others, func(other string) bool {
		return store == other || strings.HasSuffix(other, "/") && strings.HasPrefix(store, other)
	})
}

// merge adds the metrics of a file to those of this process, sorted by name.
func (m *Metrics) merge(old map[string]*dto.MetricFamily, families []*dto.MetricFamily) []*dto.MetricFamily {
	merged := map[string]*dto.MetricFamily{}
	for _, family := range families {
		merged[family.GetName()] = family
	}
	for name, was := range old {
		family, ok := merged[name]
		if !ok {
			family = &dto.MetricFamily{Name: was.Name, Help: was.Help, Type: was.Type}
		}
		if family.GetType() != was.GetType() {
			continue // written by another version
		}
		own := map[string]*dto.Metric{}
		for _, metric := range family.GetMetric() {
			own[labels(metric)] = metric
		}
		for _, metric := range was.GetMetric() {
			m.mergeMetric(family, own, metric)
		}
		if len(family.GetMetric()) > 0 {
			merged[name] = family
		}
	}
	var list []*dto.MetricFamily
	for _, family := range merged {
		list = append(list, family)
	}
	slices.SortFunc(list, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list
}

// mergeMetric adds the value of one metric in a file. It drops gauges of the file, which are out of
// date. It keeps those of a kind of run that this process has not done, and of stores that other
// processes write.
func (m *Metrics) mergeMetric(family *dto.MetricFamily, own map[string]*dto.Metric, was *dto.Metric) {
	is := own[labels(was)]
	gauge := family.GetType() == dto.MetricType_GAUGE
	others := label(was, "kind") != "" || label(was, "store") != m.store
	switch {
	case is == nil && (!gauge || others):
		family.Metric = append(family.Metric, was)
	case is == nil || gauge:
	case was.Counter != nil:
		*is.Counter.Value += was.Counter.GetValue()
	case was.Histogram != nil:
		addHistogram(is.Histogram, was.Histogram)
	}
}

// addHistogram adds a histogram with the same buckets. It drops one of another version.
func addHistogram(to, was *dto.Histogram) {
	was.Bucket = slices.DeleteFunc(was.Bucket, func(b *dto.Bucket) bool { return math.IsInf(b.GetUpperBound(), 1) })
	same := slices.EqualFunc(to.Bucket, was.Bucket, func(a, b *dto.Bucket) bool {
		return a.GetUpperBound() == b.GetUpperBound()
	})
	if !same {
		return
	}
	*to.SampleCount += was.GetSampleCount()
	*to.SampleSum += was.GetSampleSum()
	for i := range to.Bucket {
		*to.Bucket[i].CumulativeCount += was.Bucket[i].GetCumulativeCount()
	}
}

// labels returns the labels of a metric as a text that is equal for equal labels.
func labels(m *dto.Metric) string {
	var list []string
	for _, pair := range m.GetLabel() {
		list = append(list, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// label returns the value of a label, or "".
func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
