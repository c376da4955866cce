package backoffmetrics

import (
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
)

// breaker counts the events of a breaker. It counts as closed until an event
// says otherwise.
type breaker struct {
	last        atomic.Pointer[backoff.Transition] // nil: none so far
	refused     atomic.Uint64                      // calls, by the events of the breaker
	ended       atomic.Uint64                      // calls, by the events of clients that have the breaker
	transitions [states][states][triggers]atomic.Uint64
}

// count counts an event.
func (b *breaker) count(e *backoff.Event) {
	if e.Kind == backoff.EventRefused {
		b.refused.Add(1)
		return
	}
	t := e.Transition
	if t == nil || int(t.From) >= states || int(t.To) >= states || int(t.Trigger) >= triggers {
		return // unknown to this version
	}
	b.transitions[t.From][t.To][t.Trigger].Add(1)
	// The error is left out, since it may be large.
	b.last.Store(&backoff.Transition{To: t.To, Trigger: t.Trigger, At: t.At, RetryAfter: t.RetryAfter})
}

// countEnded counts a call of a client that has a breaker for each host. Such a
// breaker has no events for the calls that it refuses: the client has them.
func (m *Metrics) countEnded(k key, e *backoff.Event) {
	if e.Kind != backoff.EventGiveUp || e.Reason != backoff.ReasonOpen || k.to == nil || k.to.Breakers == nil {
		return
	}
	if open, ok := errtree.As[*backoff.OpenError](e.Err); ok && open.Name != "" {
		m.breakers.at(key{name: open.Name}, m.MaxNames).value.ended.Add(1)
	}
}

// refusals returns how many calls the breaker refused. If both the breaker and
// its client count them, they are the same calls.
func (b *breaker) refusals() uint64 { return max(b.refused.Load(), b.ended.Load()) }

// state returns the state that the breaker is in.
func (b *breaker) state() backoff.State {
	if last := b.last.Load(); last != nil {
		return last.To
	}
	return backoff.StateClosed
}

// breakerTotals is what a breaker has done up to a moment.
type breakerTotals struct{ opened, refused uint64 }

// totals reads what the breaker has done.
func (b *breaker) totals() breakerTotals {
	t := breakerTotals{refused: b.refusals()}
	for from := range b.transitions {
		t.opened += sum(b.transitions[from][backoff.StateOpen][:])
	}
	return t
}

// minus returns what was done since old.
func (t breakerTotals) minus(old breakerTotals) breakerTotals {
	return breakerTotals{t.opened - old.opened, t.refused - old.refused}
}

// A shownBreaker is a breaker as it is shown: the counts of its events, and its
// state if it is watched.
type shownBreaker struct {
	name string
	*breaker
	state backoff.State
	mode  backoff.Mode // ModeEnforce if it is not watched
}

// shownBreakers returns all breakers, sorted by name. Of watched breakers that
// share a name the worst state counts.
func (m *Metrics) shownBreakers() []shownBreaker {
	shown := make(map[string]shownBreaker)
	for _, b := range m.breakers.inOrder() {
		shown[b.name] = shownBreaker{name: b.name, breaker: &b.value, state: b.value.state()}
	}
	watched := make(map[string]shownBreaker)
	m.eachBreaker(func(name string, b *backoff.Breaker) {
		state := b.State()
		if before, ok := watched[name]; !ok || urgencyOf(state) > urgencyOf(before.state) {
			watched[name] = shownBreaker{name: name, state: state, mode: b.Stats().Mode}
		}
	})
	for name, b := range watched {
		if b.breaker = shown[name].breaker; b.breaker == nil {
			b.breaker = new(breaker)
		}
		shown[name] = b
	}
	return sortedByName(shown)
}

// urgencyOf orders the states of breakers.
func urgencyOf(s backoff.State) int {
	return map[backoff.State]int{backoff.StateHalfOpen: 1, backoff.StateOpen: 2}[s]
}

// eachBreaker calls f for each watched breaker, with the name that is shown.
func (m *Metrics) eachBreaker(f func(name string, b *backoff.Breaker)) {
	for name, b := range m.watched.breaker.sorted() {
		f(name, b)
	}
	bounded := m.newBound()
	add := func(all *backoff.Breakers) {
		for key, b := range sortedByKey(all.All()) {
			if b == nil {
				continue // a New that wants no breaker for the key
			}
			if b.Name != "" {
				key = b.Name
			}
			f(bounded.label(key), b)
		}
	}
	for _, all := range m.watched.breakers.sorted() {
		add(all)
	}
	for _, all := range m.watched.breakers.rest(m.endpoints.breakers()) {
		add(all)
	}
}

// breakerRow is what the page shows of a breaker. Its counts are those of the
// page's window.
type breakerRow struct {
	Name    string `json:"name"`
	State   string `json:"state"` // also "forced open", "forced closed", "open (observed only)"
	Level   level  `json:"level"`
	Text    string `json:"text"`
	Refused uint64 `json:"refused"`
	Opened  uint64 `json:"opened"`

	age string // how long it has been in its state, if that is known
}

// breakerRows returns what the page shows of breakers.
func (m *Metrics) breakerRows(t timeline) []breakerRow {
	numbers := make(map[*breaker]int)
	for i, b := range m.breakers.inOrder() {
		numbers[&b.value] = i
	}
	rows := []breakerRow{}
	for _, b := range m.shownBreakers() {
		number, ok := numbers[b.breaker]
		if !ok {
			number = -1 // it has done nothing
		}
		done := t.now().ofBreaker(number).minus(t.lately().ofBreaker(number))
		rows = append(rows, b.row(done))
	}
	return rows
}

// row returns what the page shows of a breaker.
func (b shownBreaker) row(done breakerTotals) breakerRow {
	r := breakerRow{Name: b.name, State: b.state.String(), Refused: done.refused, Opened: done.opened,
		Level: [...]level{good, bad, watch}[b.state]}
	switch {
	case b.mode == backoff.ModeForcedOpen, b.mode == backoff.ModeForcedClosed:
		r.State = b.mode.String()
		r.Text = "by hand or by the program, until that ends"
		r.Level = map[bool]level{true: bad, false: watch}[b.mode == backoff.ModeForcedOpen]
	default:
		r.Text, r.age = b.why()
	}
	if done.opened > 0 {
		r.Text += "; opened " + times(done.opened)
	}
	if done.refused > 0 {
		r.Text += "; refused " + callsText(done.refused)
	}
	if b.mode == backoff.ModeObserve {
		r.Text += "; it only observes, and refuses nothing"
		if b.state != backoff.StateClosed {
			r.State, r.Level = r.State+" (observed only)", watch
		}
	}
	return r
}

// why says for how long a breaker is in its state, and why.
func (b shownBreaker) why() (text, age string) {
	last := b.last.Load()
	switch {
	case last == nil && b.state == backoff.StateClosed:
		return "since the start", ""
	case last != nil && last.To == backoff.StateOpen && b.state == backoff.StateHalfOpen:
		return "the open time has expired, and the next call probes the service", ""
	case last == nil || last.To != b.state:
		return "the reason is not known: its Observer is not connected", ""
	}
	age = durationText(max(0, clock.Since(last.At)))
	return "for " + age + ", because " + because(b.state, last.Trigger), age
}

// because says what made a breaker change to a state.
func because(to backoff.State, t backoff.Trigger) string {
	switch t {
	case backoff.TriggerRate:
		return "too many calls failed"
	case backoff.TriggerConsecutive:
		return "calls failed one after the other"
	case backoff.TriggerSlow:
		return "too many calls were slow"
	case backoff.TriggerRule:
		return "the rule TripIf wanted it"
	case backoff.TriggerTime:
		return "the open time has expired and a call probes the service"
	case backoff.TriggerProbe:
		if to == backoff.StateClosed {
			return "probes succeeded"
		}
		return "a probe failed"
	case backoff.TriggerShared:
		return "another process of the fleet did so"
	}
	return "it was set by hand or by the program"
}
