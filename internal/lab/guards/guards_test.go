package guards

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

var (
	chosen = flag.String("clients", "", "run these clients, with commas between them, or all; by default those of the bars")
	update = flag.Bool("update", false, "keep the figures, and write docs/results/guards.md")
	names  = flag.Bool("list-worlds", false, "run nothing, and print the names of all worlds")
)

// live runs a client in a world, as often as the world asks, and returns the means.
func live(t *testing.T, w world, c client) figures {
	seeds := max(1, w.seeds)
	mean := figures{}
	for seed := range seeds {
		synctest.Test(t, func(*testing.T) {
			for name, v := range w.run(c, uint64(seed+1)) {
				mean[name] += v / float64(seeds)
			}
		})
	}
	return mean
}

// wanted reports whether a client is to run in a world.
func wanted(w world, c client) bool {
	if *chosen == "all" && !w.few && onPage(c) {
		return true
	}
	if *chosen != "all" && *chosen != "" {
		return slices.Contains(strings.Split(*chosen, ","), c.name)
	}
	return slices.ContainsFunc(w.bars, func(b bar) bool { return slices.Contains(b.needs(), c.name) })
}

// asked reports whether -run names tests.
func asked() bool { return flag.Lookup("test.run").Value.String() != "" }

func TestWorlds(t *testing.T) {
	kept, err := loadBoard(keptAt)
	require.NoError(t, err)
	for group, worlds := range groups() {
		t.Run(group, func(t *testing.T) {
			for _, w := range worlds {
				switch {
				case *names:
					fmt.Println(group + "/" + w.name)
				case w.quick || nightly.On || asked():
					t.Run(w.name, func(t *testing.T) {
						kept.add(w, hold(t, w))
						if *update {
							require.NoError(t, kept.keep(keptAt))
						}
					})
				}
			}
		})
	}
}

// hold lets the clients live in a world, checks its bars, and returns the figures.
func hold(t *testing.T, w world) results {
	r := results{}
	for _, c := range slices.Concat(clients, besides) {
		if wanted(w, c) {
			r[c.name] = live(t, w, c)
			t.Logf("%-14s%v", c.name, r[c.name])
		}
	}
	for _, b := range w.bars {
		if !b.known(r) {
			continue // as -clients says
		}
		if err := b.check(r); err != nil {
			t.Error(err)
		}
	}
	return r
}

// A world is a service and its callers.
type world struct {
	group, name string
	// quick worlds take so little time that they run with every change.
	quick bool
	few   bool // only the clients of its bars live in it, unless others are named
	seeds int  // how many times it is run, with another seed each; 0 means 1
	bars  []bar
	// run lets a client live in the world, and says what it made of it.
	run func(c client, seed uint64) figures
}

// groups returns the worlds by group.
func groups() iter.Seq2[string, []world] {
	return func(yield func(string, []world) bool) {
		for _, group := range []func() []world{
			byChance, hungReplica, spread, marked, scattered, limits, chains, tenants, bulk, restarts, outages, flapping, chainOutages,
			mixed, kinds, rare, dips, overloads, slower, movings, jobs, priorities, quotas, fresh,
		} {
			if worlds := group(); !yield(worlds[0].group, worlds) {
				return
			}
		}
	}
}

// worldsOf returns the worlds of a group.
func worldsOf(group string) []world {
	for name, worlds := range groups() {
		if name == group {
			return worlds
		}
	}
	return nil
}

// address is where all services are. Each call has a path of its own.
const address = "http://service.example/"

// path returns the address of a call.
func path(n int) string { return fmt.Sprint(address, n) }

// fleet returns so many processes of a client, which share nothing but the
// service. A call goes through one of them.
func fleet(c client, s http.RoundTripper, processes int, timeout time.Duration) func(context.Context, int) bool {
	sends := make([]send, processes)
	for i := range sends {
		sends[i] = c.start(s, timeout)
	}
	return func(ctx context.Context, n int) bool { return get(ctx, sends[n%processes], path(n), nil) }
}

// length returns how long a world lasts: until so many calls have come, and
// between the least and the most.
func length(rate, calls float64, least, most time.Duration) time.Duration {
	return min(most, max(least, time.Duration(calls/rate*float64(time.Second))))
}

// A bar is what a figure of a client must reach in a world.
type bar struct {
	client, figure string
	atMost         bool // the figure must be no more than the limit, and not no less
	// The limit is plus, and times another figure if there is one.
	plus, times   float64
	other, beside string // a client, and its figure
}

// results are the figures of each client in a world.
type results map[string]figures

// limit returns what the bar asks for.
func (b bar) limit(r results) float64 {
	if b.other == "" {
		return b.plus
	}
	return b.plus + b.times*r[b.other][b.beside]
}

// check returns an error if the bar is missed.
func (b bar) check(r results) error {
	got, limit, want := r[b.client][b.figure], b.limit(r), "at least"
	missed := got < limit-1e-9
	if b.atMost {
		missed, want = got > limit+1e-9 || got < 0, "at most"
	}
	if !missed {
		return nil
	}
	return fmt.Errorf("%s: %s is %.4g, want %s %.4g", b.client, b.figure, got, want, limit)
}

// known reports whether the clients that the bar is about have run.
func (b bar) known(r results) bool {
	for _, c := range b.needs() {
		if r[c] == nil {
			return false
		}
	}
	return true
}

// needs returns the clients that the bar is about.
func (b bar) needs() []string {
	if b.other == "" {
		return []string{b.client}
	}
	return []string{b.client, b.other}
}

// The bars of several groups.

// within wants as many successes as another client has, but for some points.
func within(client string, points float64, other string) bar {
	return bar{client: client, figure: success, plus: -points, times: 1, other: other, beside: success}
}

// possible wants as many successes as could be, but for some points.
func possible(client string, points float64) bar {
	return bar{client: client, figure: success, plus: -points, times: 1, other: client, beside: could}
}

// mostly wants so many of a hundred calls to succeed that could.
func mostly(percent float64) bar {
	return bar{client: ours, figure: success, times: percent / 100, other: ours, beside: could}
}

// keeps wants no fewer successes than the default client had when the bars were
// set, but for some points.
func keeps(was, points float64) bar { return atLeast(ours, success, was-points) }

func atLeast(client, figure string, limit float64) bar {
	return bar{client: client, figure: figure, plus: limit}
}

func atMost(client, figure string, limit float64) bar {
	return bar{client: client, figure: figure, plus: limit, atMost: true}
}
