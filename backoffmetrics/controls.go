package backoffmetrics

import (
	"cmp"
	"strings"

	"github.com/gobackoff/backoff/control"
)

// controls is what can be changed while the program runs, and what was.
type controls struct {
	Overrides []override `json:"overrides"`

	operations map[string]bool // policies and hedges that can be changed, by their label
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

// WatchPanel shows on the page what can be changed by p while the program runs,
// and the overrides in force, with who made them and why. p is read when the
// page is requested. A panel of the same name is replaced. A nil p removes the
// name. Package controlhttp serves the panel itself.
func (m *Metrics) WatchPanel(name string, p *control.Panel) {
	m.watched.panels.set(name, p, p == nil)
}

// readControls returns what all panels say, or nil if there are none.
func (m *Metrics) readControls() (all *controls) {
	for _, p := range m.watched.panels.sorted() {
		if all == nil {
			all = &controls{Overrides: []override{}, operations: make(map[string]bool), retriesOff: make(map[string]bool)}
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
		shown := override{what: o.String(), Text: o.String() + ": " + cut(o.To), Who: o.Who, Why: o.Why, Since: o.Since.UnixMilli()}
		if !o.Until.IsZero() {
			shown.Until = o.Until.UnixMilli()
		}
		c.Overrides = append(c.Overrides, shown)
	}
	for _, t := range p.Targets() {
		if t.What == control.Retries && cmp.Or(retries[t.Name], retries[control.All]) == control.Off {
			c.retriesOff[labelOf(t.Name)] = true
		}
		if t.What != control.Breakers {
			c.operations[labelOf(t.Name)] = true
		}
	}
}

// cut returns the beginning of a spec, which may be long.
func cut(text string) string {
	if len(text) <= maxName {
		return text
	}
	return strings.ToValidUTF8(text[:maxName], "") + "…"
}

// hasRetriesOff reports whether the retries of an operation are switched off.
func (c *controls) hasRetriesOff(name string) bool { return c != nil && c.retriesOff[name] }

// has reports whether an operation can be changed.
func (c *controls) has(name string) bool { return c != nil && c.operations[name] }
