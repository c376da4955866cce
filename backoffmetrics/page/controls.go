package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// controls is what was changed while the program runs.
type controls struct {
	Overrides []override `json:"overrides"`

	retriesOff map[string]bool // policies whose retries are switched off, by their label
}

// override is a change in force.
type override struct {
	what  string // such as "retries of search"
	Text  string `json:"text"`            // such as "retries of search: off"
	Who   string `json:"who"`             // made the change
	Why   string `json:"why"`             // was it made
	Since int64  `json:"since"`           // in ms of the Unix time
	Until int64  `json:"until,omitempty"` // 0 means that it has no end
}

// readControls returns what all panels say, or nil if there are none.
func readControls(panels []*control.Panel) (all *controls) {
	for _, p := range panels {
		if all == nil {
			all = &controls{Overrides: []override{}, retriesOff: make(map[string]bool)}
		}
		all.add(p)
	}
	return all
}

// add adds what a panel says.
func (c *controls) add(p *control.Panel) {
	retries := make(map[string]string) // off or on, by name
	for _, o := range p.Overrides() {
		if o.What == control.Retries {
			retries[o.Name] = o.To
		}
		shown := override{
			what: o.String(), Text: o.String() + ": " + cut(o.To),
			Who: o.Who, Why: o.Why, Since: o.Since.UnixMilli(),
		}
		if !o.Until.IsZero() {
			shown.Until = o.Until.UnixMilli()
		}
		c.Overrides = append(c.Overrides, shown)
	}
	for _, t := range p.Targets() {
		if t.What == control.Retries && cmp.Or(retries[t.Name], retries[control.All]) == control.Off {
			c.retriesOff[snapshot.Label(t.Name)] = true
		}
	}
}

// cut returns the beginning of a spec, which may be long.
func cut(text string) string {
	if len(text) <= snapshot.MaxName {
		return text
	}
	return strings.ToValidUTF8(text[:snapshot.MaxName], "") + "…"
}

// hasRetriesOff reports whether the retries of an operation are switched off.
func (c *controls) hasRetriesOff(name string) bool { return c != nil && c.retriesOff[name] }

// overrideFamily counts the overrides in force. It shows in which processes one
// holds, and whether it was forgotten.
func overrideFamily(panels []*control.Panel) backoffmetrics.Family {
	labels := []string{"what", "name", "key"}
	f := backoffmetrics.Family{Name: "backoff_overrides", Type: "gauge", Labels: labels, Help: "Overrides in force."}
	inForce := make(map[control.Target]int)
	for _, p := range panels {
		for _, o := range p.Overrides() {
			key := o.Key
			if key != "" {
				key = snapshot.Label(key)
			}
			inForce[control.Target{What: o.What, Name: snapshot.Label(o.Name), Key: key}]++
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(inForce), compareTargets) {
		labels := []string{"what", t.What, "name", t.Name}
		if t.Key != "" {
			labels = append(labels, "key", t.Key)
		}
		f.Samples = append(f.Samples, backoffmetrics.Sample{Labels: labels, Value: float64(inForce[t])})
	}
	return f
}

// compareTargets is the order in which overrides are listed.
func compareTargets(a, b control.Target) int {
	return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}
