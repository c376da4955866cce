package guards

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
	"github.com/gobackoff/backoff/limit/adaptive"
)

// The clients that limit how many attempts run at once.
const (
	limitAlone    = "adaptive"
	failsafeLimit = "failsafelimit"
	netflix       = "gradient"
	resile        = "resile"
)

// limiters are these clients. Netflix' limits are in Java, and resile is not to be had as
// a module: the two are written here again, from what their sources do by default.
var limiters = []client{
	{
		name: limitAlone, caption: "ours, adaptive.Limit alone",
		about: "this library, with backoffhttp.Unguarded and an adaptive.Limit as the only budget",
		start: unguardedBy(func() backoff.Budget { return new(adaptive.Limit) }),
	},
	{
		name: failsafeLimit, caption: "failsafe-go, limited",
		about: "failsafe-go, with its adaptive limiter below its retries",
		start: failsafeWith(func() failsafe.Policy[*http.Response] { return adaptivelimiter.NewWithDefaults[*http.Response]() }),
	},
	{
		name: netflix, caption: "Netflix' gradient",
		about: "the Gradient2Limit of Netflix, in windows of a second, with its LifoBlockingLimiter, below the retries of failsafe-go",
		start: gated(100, func() law { return &gradientLaw{limit: 20} }),
	},
	{
		name: resile, caption: "resile",
		about: "the AdaptiveLimiter of resile, below the retries of failsafe-go",
		start: gated(0, func() law { return &resileLaw{limit: 10} }),
	},
}

// gated returns how to start a client that has a gate below the retries of failsafe-go. The
// timeout of an attempt does not count while it waits at the gate.
func gated(backlog int, law func() law) func(http.RoundTripper, time.Duration) send {
	return func(base http.RoundTripper, most time.Duration) send {
		if most > 0 {
			base = failsafehttp.NewRoundTripper(base, timeout.New[*http.Response](most))
		}
		return failsafeWith()(&gate{base: base, law: law(), backlog: backlog}, 0)
	}
}

// A law says how many attempts may run.
type law interface {
	most() float64
	// learn takes note of an attempt that took so long, and began as the last of so many.
	learn(now time.Time, took time.Duration, running int)
}

// A gate lets as many attempts run as a law says. So many others may wait for a second,
// and the newest goes first.
type gate struct {
	base    http.RoundTripper
	backlog int

	mu      sync.Mutex
	law     law
	running int
	waiting []chan struct{} // the newest is the last
}

const mostInLine = time.Second

var errShed = errors.New("too many at once")

// RoundTrip implements [http.RoundTripper].
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	running, ok := g.enter(req.Context())
	if !ok {
		return nil, errShed
	}
	began := time.Now()
	defer func() { g.leave(began, running) }()
	return g.base.RoundTrip(req)
}

// enter returns how many attempts run, if one more may.
func (g *gate) enter(ctx context.Context) (running int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if float64(g.running) < g.law.most() {
		g.running++
		return g.running, true
	}
	if len(g.waiting) >= g.backlog {
		return 0, false
	}
	turn := make(chan struct{})
	g.waiting = append(g.waiting, turn)
	g.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
	case <-time.After(mostInLine):
	}
	g.mu.Lock()
	if i := slices.Index(g.waiting, turn); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return 0, false
	}
	return g.running, true
}

// leave ends an attempt.
func (g *gate) leave(began time.Time, running int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	now := time.Now()
	g.law.learn(now, now.Sub(began), running)
	for n := len(g.waiting) - 1; n >= 0 && float64(g.running) < g.law.most(); n-- {
		close(g.waiting[n])
		g.waiting = g.waiting[:n]
		g.running++
	}
}

// A gradientLaw compares the mean latency of each second with a mean of 600 of them.
type gradientLaw struct {
	limit   float64
	usual   float64 // seconds
	windows int     // that it is made of

	until   time.Time // end of the window
	sum     float64   // seconds
	runs    int
	busiest int
}

func (l *gradientLaw) most() float64 { return l.limit }

func (l *gradientLaw) learn(now time.Time, took time.Duration, running int) {
	l.sum, l.runs, l.busiest = l.sum+took.Seconds(), l.runs+1, max(l.busiest, running)
	if !now.After(l.until) {
		return
	}
	if l.runs >= 10 {
		l.follow(l.sum/float64(l.runs), float64(l.busiest))
	}
	l.until, l.sum, l.runs, l.busiest = now.Add(time.Second), 0, 0, 0
}

func (l *gradientLaw) follow(mean, busiest float64) {
	l.windows++
	part := 2. / 601
	if l.windows <= 10 {
		part = 1 / float64(l.windows)
	}
	l.usual += part * (mean - l.usual)
	usual := l.usual
	if usual > 2*mean {
		l.usual *= 0.9
	}
	if busiest >= l.limit/2 {
		next := l.limit*max(0.5, min(1, 1.5*usual/mean)) + 4
		l.limit = max(20, min(200, 0.8*l.limit+0.2*next))
	}
}

// A resileLaw compares a mean of the last ten or so attempts with the quickest one.
type resileLaw struct {
	limit          int
	mean, quickest time.Duration
	raised         time.Time
}

func (l *resileLaw) most() float64 { return float64(l.limit) }

func (l *resileLaw) learn(now time.Time, took time.Duration, _ int) {
	if l.quickest == 0 {
		l.mean, l.quickest, l.raised = took, took, now
		return
	}
	if now.Sub(l.raised) > time.Minute {
		l.quickest, l.raised = l.quickest+l.quickest/20, now
	}
	l.quickest = min(l.quickest, took)
	l.mean += (took - l.mean) / 10
	if 2*l.mean < 3*l.quickest {
		l.limit++
	} else {
		l.limit = max(1, l.limit*4/5)
	}
}

// limitRows are the worlds in which docs/results/comparison.md compares the limiters.
var limitRows = []string{
	"slower/load 120 %, 20 processes, calls have 1 s",
	"slower/load 150 %, 1 processes, calls have 1 s",
	"slower/load 150 %, 20 processes, attempts have 1 s",
	"slower/load 150 %, rejects, 1 processes, attempts have 1 s",
	"slower/load 150 %, rejects, 20 processes, calls have 1 s",
	"slower/capacity 40 %, 1 processes, attempts have 1 s",
	"slower/capacity 40 %, 20 processes, calls have 1 s",
	"room/slower by 3 to the end, 3 % hang, 100 a second, calls have 1.5s",
	"room/slower by 10 to the end, 10 % hang, 100 a second, calls have 1.5s",
	"room/slower by 40 to the end, 1000 a second, calls have 1.5s",
	"room/slower by 40 for 3 s, 100 a second, calls have 10s",
	"room/slower by 100 for 10 s, 100 a second, calls have 1.5s",
}

// limitColumns are its clients.
var limitColumns = []struct{ client, caption string }{
	{ours, "default"},
	{limitAlone, "`adaptive.Limit` alone"},
	{failsafeLimit, "failsafe-go"},
	{netflix, "Netflix' gradient"},
	{resile, "resile"},
	{none, "no retries"},
}

const (
	limitsAt   = "testdata/limiters.json"
	comparison = resultsAt + "/comparison.md"
	limitSeeds = 3
)

func TestLimiters(t *testing.T) {
	if !asked() {
		return // it takes long
	}
	kept, err := loadBoard(limitsAt)
	require.NoError(t, err)
	for _, w := range limitWorlds() {
		for _, column := range limitColumns {
			c := clientOf(column.client)
			if *chosen != "" && !slices.Contains(strings.Split(*chosen, ","), c.name) {
				continue
			}
			f := live(t, w, c)
			t.Logf("%s: %-14s%v", w.key(), c.name, f)
			kept.add(w, results{c.name: f})
			if *update {
				require.NoError(t, kept.keep(limitsAt))
			}
		}
	}
}

// limitWorlds returns the worlds of the rows.
func limitWorlds() (all []world) {
	for _, key := range limitRows {
		group, _, _ := strings.Cut(key, "/")
		for _, w := range worldsOf(group) {
			if w.key() == key {
				w.seeds = limitSeeds
				all = append(all, w)
			}
		}
	}
	return all
}

// clientOf returns a client by its name.
func clientOf(name string) client {
	all := slices.Concat(clients, besides)
	return all[slices.IndexFunc(all, func(c client) bool { return c.name == name })]
}

func TestTheComparisonHasTheLimitersThatAreKept(t *testing.T) {
	kept, err := loadBoard(limitsAt)
	require.NoError(t, err)
	var lines table
	var columns []client
	for _, column := range limitColumns {
		columns = append(columns, client{caption: column.caption})
	}
	lines.head(columns, "World")
	for _, w := range limitWorlds() {
		lines.row(append([]string{w.name}, limitCells(w, kept[w.key()])...)...)
	}
	docpagetest.Table(t, comparison, "limiters", strings.Split(strings.TrimSpace(lines.String()), "\n"), *update)
}

// limitCells returns what the clients made of a world, the best and those near it bold, and
// the attempts per call. Where there is room, those of the calm minute would count, too.
func limitCells(w world, r results) (cells []string) {
	best := 0.0
	for _, f := range r {
		best = max(best, f[success])
	}
	for _, column := range limitColumns {
		f := r[column.client]
		text := f.print(success)
		if f[success] >= best-0.5 {
			text = "**" + text + "**"
		}
		if w.group == "slower" {
			text += " (" + f.print(perCall) + ")"
		}
		cells = append(cells, text)
	}
	return cells
}
