package backoffmetrics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gobackoff/backoff/control"
)

// overrideFamily counts the overrides in force: so it is seen in which processes
// one holds, and whether it was forgotten.
func (m *Metrics) overrideFamily() Family {
	f := Family{
		Name: "backoff_overrides", Type: "gauge", Labels: []string{"what", "name", "key"},
		Help: "Overrides in force.",
	}
	inForce := make(map[control.Target]uint64)
	for _, p := range m.watched.panels.sorted() {
		for _, o := range p.Overrides() {
			key := o.Key
			if key != "" {
				key = labelOf(key)
			}
			inForce[control.Target{What: o.What, Name: labelOf(o.Name), Key: key}]++
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(inForce), inOrder) {
		labels := []string{"what", t.What, "name", t.Name}
		if t.Key != "" {
			labels = append(labels, "key", t.Key)
		}
		f.count(inForce[t], labels...)
	}
	return f
}

func inOrder(a, b control.Target) int {
	return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}
