package page

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// card is what the page shows of an operation. Its numbers are those of the
// page's window.
type card struct {
	ID       string      `json:"id"` // of the element, for links
	Name     string      `json:"name"`
	Endpoint string      `json:"endpoint,omitempty"`
	Level    level       `json:"level"`
	Text     string      `json:"text"`
	Circuit  *breakerRow `json:"circuit,omitempty"`

	Calls           uint64      `json:"calls"`
	Attempts        uint64      `json:"attempts"`
	Retries         uint64      `json:"retries"`
	Hedges          uint64      `json:"hedges"`
	Reconnects      uint64      `json:"reconnects"`
	BudgetRefused   uint64      `json:"budget_refused"`
	AttemptsPerCall float64     `json:"attempts_per_call"` // 0 without calls
	CallsPerSecond  float64     `json:"calls_per_second"`
	FailedShare     string      `json:"failed_share"`
	Outcomes        []outcome   `json:"outcomes"` // of all calls
	Errors          []errorRow  `json:"errors"`   // of all attempts that failed
	Waits           *quantiles  `json:"waits,omitempty"`
	Attempting      *attempting `json:"attempting,omitempty"`
	Chart           *chart      `json:"chart"`
	Switchable      bool        `json:"switchable"`

	finding  finding
	since    string
	failures uint64

	retriesOff bool // by hand
}

// outcome is how many calls ended in a way.
type outcome struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Count uint64 `json:"count"`
	Share string `json:"share"` // of all calls
}

// quantiles are estimates, in seconds. -1 means that there is none.
type quantiles struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Count uint64  `json:"count"` // of what they are estimated from
}

// attempting describes the attempts at an endpoint: their durations, and how
// many are in flight.
type attempting struct {
	quantiles
	InFlight int `json:"in_flight"`
	Callers  int `json:"callers"` // operations that share these numbers
}

// chart has rates per second, in columns of Step seconds. -1 means that nothing
// is known.
type chart struct {
	Step      float64   `json:"step"`
	Succeeded []float64 `json:"succeeded"` // calls
	Failed    []float64 `json:"failed"`    // calls
	Extra     []float64 `json:"extra"`     // retries and hedges
}

// cardOf returns the card of an operation.
func (h *history) cardOf(t timeline, o *snapshot.Operation) card {
	now := t.now().totals[o.Labels]
	w := now.minus(t.lately().totals[o.Labels])
	d := t.diagnose(o.Labels)
	if o.Labels == (snapshot.Labels{Name: snapshot.Other}) {
		d.text += " These are all operations beyond MaxNames, counted together."
	}
	c := card{
		ID: idOf(o.Labels), Name: o.Name, Endpoint: o.Endpoint, finding: d.finding, since: d.since, failures: w.failed, Level: d.finding.level(), Text: d.text,
		Calls: w.calls(), Attempts: w.attempts, Retries: w.retries, Hedges: w.hedges, Reconnects: w.reconnects, BudgetRefused: w.refused,
		FailedShare: failedShare(w), Outcomes: outcomesOf(w), Errors: h.errorRows(o.Labels, w.errors),
		Waits: quantilesOf(o.Wait.Bounds, w.waits), Chart: t.chart(o.Labels),
	}
	if w.calls() > 0 {
		c.AttemptsPerCall = round(float64(w.attempts) / float64(w.calls()))
	}
	c.CallsPerSecond = round(float64(w.calls()) / t.length().Seconds())
	return c
}

// idOf returns the id of an operation's card: its labels without the characters
// that a link may not have, and a hash if there were any. No other element has an
// id that begins like that.
func idOf(l snapshot.Labels) string {
	whole := strings.TrimSpace(l.Name + " " + l.Endpoint)
	id := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '-'
	}, whole)
	if id == whole {
		return "op-" + id
	}
	hash := fnv.New32a()
	hash.Write([]byte(l.Name + "\x00" + l.Endpoint))
	return fmt.Sprintf("op-%.40s-%x", id, hash.Sum32())
}

// outcomesOf returns how the calls ended.
func outcomesOf(t totals) []outcome {
	counts := t.outcomes()
	percent, _ := t.percentages()
	list := []outcome{{Name: "first", Label: "at once"}, {Name: "retried", Label: "after retries"},
		{Name: "refused", Label: "refused by the breaker"}, {Name: "failed", Label: "failed"}}
	if t.open > 0 {
		list[3].Label = "failed otherwise"
	}
	for i, n := range counts {
		list[i].Count, list[i].Share = n, percentText(percent[i], n, t.calls())
	}
	return list
}

// quantilesOf returns the quantiles of values in buckets, or nil without any.
func quantilesOf(bounds []float64, counts [snapshot.MaxBuckets]uint32) *quantiles {
	var all uint64
	for _, n := range counts {
		all += uint64(n)
	}
	if all == 0 {
		return nil
	}
	of := func(q float64) float64 { return seconds(quantile(bounds, counts[:], q)) }
	return &quantiles{of(0.5), of(0.95), of(0.99), all}
}

// quantile estimates the value that a share q of all values does not exceed, as
// the Quantile of package endpoint does: it interpolates within a bucket. It
// returns NaN without values, and the last bound if the quantile is beyond that.
func quantile(bounds []float64, counts []uint32, q float64) float64 {
	var all float64
	for _, n := range counts {
		all += float64(n)
	}
	if all == 0 {
		return math.NaN()
	}
	rank, below, lower := q*all, 0.0, 0.0
	for i, upper := range bounds {
		if n := float64(counts[i]); n > 0 && below+n >= rank {
			return lower + (upper-lower)*math.Max(0, rank-below)/n
		}
		below, lower = below+float64(counts[i]), upper
	}
	return lower
}

// attemptingOf describes the attempts at an endpoint.
func attemptingOf(t timeline, name string, inFlight, callers int) *attempting {
	now, start := t.now().endpoints[name], t.lately().endpoints[name]
	a := &attempting{quantiles: quantiles{-1, -1, -1, 0}, InFlight: inFlight, Callers: callers}
	var counts attemptCounts
	for i := range counts {
		if n := now[i] - start[i]; n < 1<<31 { // or endpoints of many names were counted together
			counts[i] = n
		}
	}
	if q := quantilesOf(endpoint.Bounds(), counts); q != nil {
		a.quantiles = *q
	}
	return a
}

// chart returns the rates of an operation.
func (t timeline) chart(operation snapshot.Labels) *chart {
	return &chart{
		Step:      step.Seconds(),
		Succeeded: jsonRates(t.rates(operation, func(t totals) uint64 { return t.first + t.retried })),
		Failed:    jsonRates(t.rates(operation, func(t totals) uint64 { return t.failed })),
		Extra:     jsonRates(t.rates(operation, func(t totals) uint64 { return t.retries + t.hedges })),
	}
}

// jsonRates rounds the rates. JSON has no NaN, so that becomes -1.
func jsonRates(rates []float64) []float64 {
	for i, r := range rates {
		if math.IsNaN(r) {
			rates[i] = -1
			continue
		}
		rates[i] = round(r)
	}
	return rates
}

// round rounds to two decimals.
func round(f float64) float64 { return math.Round(f*100) / 100 }
