package backoffmetrics

import "encoding/json"

// String returns the value of each series as a JSON object, so that a Metrics is
// an expvar.Var. The series are named as in the text for Prometheus. A histogram
// has one for the number of its values, and one for their sum.
func (m *Metrics) String() string {
	values := make(map[string]float64)
	for _, f := range m.Families() {
		for _, s := range f.Samples {
			if f.Type != "histogram" {
				values[seriesName(f.Name, s.Labels)] = s.Value
				continue
			}
			var count uint64
			for _, n := range s.Counts {
				count += n
			}
			values[seriesName(f.Name+"_count", s.Labels)], values[seriesName(f.Name+"_sum", s.Labels)] = float64(count), s.Sum
		}
	}
	text, _ := json.Marshal(values) // no sum is NaN or infinite
	return string(text)
}
