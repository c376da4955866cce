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
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gobackoff/backoff/backoffmetrics"
)

// New returns a collector of the series of m. It is an unchecked collector,
// because series come with the operations: a registry learns of a conflict when
// it gathers. It is safe for concurrent use.
func New(m *backoffmetrics.Metrics) prometheus.Collector { return collector{m} }

// collector collects the series of a Metrics.
type collector struct{ metrics *backoffmetrics.Metrics }

// Describe implements [prometheus.Collector].
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, f := range c.metrics.Families() {
		for _, s := range f.Samples {
			to <- metricOf(&f, &s)
		}
	}
}

// metricOf returns a series in the client library's form.
func metricOf(f *backoffmetrics.Family, s *backoffmetrics.Sample) prometheus.Metric {
	labels := make(prometheus.Labels, len(s.Labels)/2)
	for i := 0; i < len(s.Labels); i += 2 {
		labels[s.Labels[i]] = s.Labels[i+1]
	}
	desc := prometheus.NewDesc(f.Name, f.Help, nil, labels)
	switch f.Type {
	case "counter":
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, s.Value)
	case "gauge":
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, s.Value)
	}
	upTo, total := make(map[float64]uint64, len(s.Bounds)), uint64(0)
	for i, n := range s.Counts {
		if total += n; i < len(s.Bounds) {
			upTo[s.Bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, s.Sum, upTo)
}
