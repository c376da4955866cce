// Package backoffprom shows what policies, hedges and breakers do in a registry
// of Prometheus' client library, for programs that have one.
//
//	var metrics backoffmetrics.Metrics
//
//	prometheus.MustRegister(backoffprom.New(&metrics))
//
//	policy := backoff.Policy{Name: "search", Observer: metrics.Observe}
//
// The series are those of [backoffmetrics.Metrics], which also serves them as
// text: a program without a registry does not need this package.
package backoffprom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gobackoff/backoff/backoffmetrics"
)

// New returns a collector of the series of m. It is safe for concurrent use. A
// registry takes one such collector, and refuses another when it is registered.
// For several Metrics in a registry, give each a label:
//
//	part := func(name string) prometheus.Registerer {
//		return prometheus.WrapRegistererWith(prometheus.Labels{"part": name}, registry)
//	}
//	part("a").MustRegister(backoffprom.New(&a))
//	part("b").MustRegister(backoffprom.New(&b))
//
// A series whose endpoint is not known has an empty one, which to Prometheus is
// none.
func New(m *backoffmetrics.Metrics) prometheus.Collector {
	c := &collector{metrics: m, descs: make(map[string]*prometheus.Desc)}
	for _, f := range new(backoffmetrics.Metrics).Families() {
		c.descs[f.Name] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	return c
}

// collector collects the series of a Metrics.
type collector struct {
	metrics *backoffmetrics.Metrics
	descs   map[string]*prometheus.Desc // by the name of the family
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		to <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, f := range c.metrics.Families() {
		for _, s := range f.Samples {
			to <- metricOf(c.descs[f.Name], &f, &s)
		}
	}
}

// metricOf returns a series in the client library's form.
func metricOf(desc *prometheus.Desc, f *backoffmetrics.Family, s *backoffmetrics.Sample) prometheus.Metric {
	labels := make([]string, len(f.Labels))
	for i := 0; i < len(s.Labels); i += 2 {
		labels[slices.Index(f.Labels, s.Labels[i])] = s.Labels[i+1]
	}
	switch f.Type {
	case "counter":
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, s.Value, labels...)
	case "gauge":
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, s.Value, labels...)
	}
	upTo, total := make(map[float64]uint64, len(s.Bounds)), uint64(0)
	for i, n := range s.Counts {
		if total += n; i < len(s.Bounds) {
			upTo[s.Bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, s.Sum, upTo, labels...)
}
