package backoffmetrics

import "slices"

// overrideFamily counts the overrides in force: so it is seen in which processes
// one holds, and whether it was forgotten.
func (m *Metrics) overrideFamily() Family {
	f := Family{Name: "backoff_overrides", Type: "gauge", Help: "Overrides in force."}
	for _, p := range m.watched.panels.sorted() {
		for _, o := range p.Overrides() {
			labels := []string{"what", o.What, "name", labelOf(o.Name)}
			if o.Key != "" {
				labels = append(labels, "key", labelOf(o.Key))
			}
			i := slices.IndexFunc(f.Samples, func(s Sample) bool { return slices.Equal(s.Labels, labels) })
			if i < 0 {
				f.count(1, labels...)
				continue
			}
			f.Samples[i].Value++
		}
	}
	return f
}
