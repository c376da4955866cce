package bench

import (
	"flag"
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

var speed = flag.Bool("speed", false, "compare what calls cost with code written by hand, on a machine that does nothing else")

// TestSpeed prints what calls cost, as a multiple of code written by hand for the same work, and
// fails where a bar is missed. Both run in turn, in one process, and the least of five rounds
// counts: noise only adds. Package size holds what Do adds to a program.
func TestSpeed(t *testing.T) {
	if !*speed {
		t.Skip("it needs a quiet machine: make speed")
	}
	if err := flag.Set("test.benchtime", "100ms"); err != nil {
		t.Fatal(err)
	}
	get := func(i int) func(*testing.B) { return httpCalls(clients[i].make, http.MethodGet, nil, 0) }
	t.Logf("%-34s %10s %10s %8s %8s", "", "ours, ns", "theirs, ns", "ratio", "at most")
	for _, c := range []struct {
		what         string
		theirs, ours func(*testing.B)
		most         float64
		allocations  int64
	}{
		{"success", minimalSuccess, backoffSuccess, 1.8, 0},
		{"breaker", minimalBreaker, backoffBreaker, 1.8, 0},
		{"loop", minimalLoop, backoffLoop, 3, 0},
		{"three failures at once", minimalFailures(0), backoffFailures(0), 6, 0},
		{"breaker and policy", minimalGuards, breakerAndPolicy, 3, 0},
		{"guards around a function", guardsOfTwoWords, ownService(false), 3, 0},
		{"guards of a patient service", guardsOfTwoWords, ownService(true), math.Inf(1), 0},
		{"a retry that a budget grants", grantByHand, grant, 6, 0},
		{"a value", minimalOfValue, backoffOfValue, 4, 0},
		{"HTTP GET, beside go-retryablehttp", get(3), get(1), 1.05, math.MaxInt64},
	} {
		ours, theirs := math.Inf(1), math.Inf(1)
		for range 5 {
			theirs = min(theirs, nanoseconds(testing.Benchmark(c.theirs)))
			r := testing.Benchmark(c.ours)
			ours = min(ours, nanoseconds(r))
			assert.LessOrEqual(t, r.AllocsPerOp(), c.allocations, c.what)
		}
		t.Logf("%-34s %10.1f %10.1f %8.2f %8.2f", c.what, ours, theirs, ours/theirs, c.most)
		assert.LessOrEqual(t, ours/theirs, c.most, c.what)
	}
}

func nanoseconds(r testing.BenchmarkResult) float64 { return float64(r.T) / float64(r.N) }
