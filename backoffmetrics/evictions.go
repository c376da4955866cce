package backoffmetrics

// A shownKeys is how many keys were forgotten for others.
type shownKeys struct {
	name      string
	evictions uint64
}

// The names under which the keys of all endpoints are shown, unless they are
// watched under a name.
const (
	breakersOfEndpoints = "breakers of endpoints"
	budgetsOfEndpoints  = "budgets of endpoints"
)

// shownKeys returns the evictions of all that is keyed, sorted by name.
func (m *Metrics) shownKeys() []shownKeys {
	shown := make(map[string]shownKeys)
	add := func(name string, evictions uint64) {
		shown[name] = shownKeys{name, shown[name].evictions + evictions}
	}
	for name, b := range m.watched.breakers.sorted() {
		add(name, b.Evictions())
	}
	for name, b := range m.watched.budgets.sorted() {
		add(name, b.Evictions())
	}
	for _, b := range m.watched.breakers.rest(m.endpoints.breakers()) {
		add(breakersOfEndpoints, b.Evictions())
	}
	for _, b := range m.watched.budgets.rest(m.endpoints.budgets()) {
		add(budgetsOfEndpoints, b.Evictions())
	}
	return sortedByName(shown)
}

// keysRow says how many keys were forgotten since the start.
type keysRow struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// keysRows returns the rows of keyed breakers and budgets that forgot keys.
func (m *Metrics) keysRows() []keysRow {
	rows := []keysRow{}
	for _, k := range m.shownKeys() {
		if k.evictions > 0 {
			rows = append(rows, keysRow{k.name, count(k.evictions, "key was", "keys were") + " forgotten since the start, because there were more than MaxKeys"})
		}
	}
	return rows
}
