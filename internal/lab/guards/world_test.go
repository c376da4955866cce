package guards

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"
)

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
			byChance, hungReplica, spread, marked, scattered, limits, chains, tenants, bulk, restarts, dips, overloads, outages,
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
