package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

const ms = time.Millisecond

// one and four are servers; the constants of the budget were chosen on one, and
// on no other. So were those of all worlds without the word "fresh".
var (
	one  = Server{Service: Exponential(ms)}
	four = Server{Servers: 4, Service: Exponential(3 * ms)}
	many = Server{Servers: 30, Service: around(25*ms, 0.8)}
)

// Where a service has room, the default budget grants nearly every retry that
// MaxAttempts allows, whatever the latencies are.
func TestWhereThereIsRoomRetriesAreGranted(t *testing.T) {
	quick, mid := always(Exponential(ms)), always(Exponential(20*ms))
	usual, fresh := []float64{1, 10, 100, 1000}, []float64{3, 30, 300}
	for _, c := range []struct {
		name    string
		service roomy
		rates   []float64
		least   []float64
	}{
		{"10 % fail", roomy{latency: quick, errors: 0.1}, usual, []float64{99, 99, 99, 99}},
		{"30 % fail", roomy{latency: quick, errors: 0.3}, usual, []float64{98.2, 98.2, 98.2, 98.2}},
		{"50 % fail", roomy{latency: quick, errors: 0.5}, usual, []float64{80, 90, 90, 90}},
		{"sigma 1.5", roomy{latency: always(around(5*ms, 1.5)), errors: 0.3}, usual, []float64{97, 97, 97, 97}},
		{"sigma 2", roomy{latency: always(around(5*ms, 2)), errors: 0.3}, usual, []float64{95, 97, 97, 97}},
		{"two kinds", roomy{latency: slowly(5*ms, 500*ms, 0.5), errors: 0.3}, usual, []float64{86, 97, 97, 97}},
		{"quick errors", roomy{latency: always(Exponential(100 * ms)), errors: 0.3, failure: ms}, usual, []float64{97, 97, 97, 97}},
		{"slow errors", roomy{latency: always(Exponential(5 * ms)), errors: 0.3, failure: 300 * ms}, usual, []float64{97, 97, 97, 97}},
		{"10 % hung", roomy{latency: mid, hung: 0.1}, usual, []float64{97, 98, 98, 98}},
		{"30 % hung", roomy{latency: mid, hung: 0.3}, usual, []float64{80, 98, 98, 98}},
		{"10 % hung, at last", roomy{latency: mid, hung: 0.1, healthy: warm}, usual, []float64{97, 98, 98, 98}},
		{"30 % hung, at last", roomy{latency: mid, hung: 0.3, healthy: warm}, usual, []float64{80, 98, 98, 98}},
		{"timeout at p99", roomy{latency: always(Exponential(217 * ms)), errors: 0.2}, usual, []float64{97, 97, 97, 97}},
		{"fresh: 25 % fail", roomy{latency: always(around(80*ms, 1.2)), errors: 0.25}, fresh, []float64{98, 98, 98}},
		{"fresh: two kinds", roomy{latency: slowly(30*ms, 300*ms, 0.2), errors: 0.3}, fresh, []float64{97, 98, 98}},
		{"fresh: 15 % hung", roomy{latency: always(around(60*ms, 1)), hung: 0.15}, fresh, []float64{97, 98, 98}},
		{"fresh: 35 % hung, at last", roomy{latency: always(around(60*ms, 0.7)), hung: 0.35, healthy: 3 * warm}, fresh, []float64{80, 95, 95}},
		{"fresh: 25 % hung, 10 % fail", roomy{latency: always(around(10*ms, 1)), hung: 0.25, errors: 0.1}, fresh, []float64{93, 97, 97}},
	} {
		for i, rate := range c.rates {
			if rate >= 300 && !nightly.On {
				continue
			}
			got := room(c.service, rate).success(1, 0, retryBudget, nightly.Size[uint64](1, 4))
			t.Logf("%s, %v calls/s: %.1f", c.name, rate, got)
			require.GreaterOrEqual(t, got, c.least[i], "%s, %v calls/s", c.name, rate)
		}
	}
}

// A loaded is a world in which retries are themselves a load, with the share of
// calls that succeeded in it under the budget before this one, which had neither
// refunds nor a sense of strain, in percent.
type loaded struct {
	name      string
	world     world
	processes [4]int
	before    percents // with so many processes
	margin    float64  // below what is wanted
}

type percents = [4]float64

var (
	usual = [4]int{20, 200, 1000, 4000}
	fresh = [4]int{7, 70, 700, 2500}
)

// Where a service has no room, the default budget does no more harm than the one
// before it. If the failures are not of its making, it does no more harm than no
// retries, either. The margins above 1 are what is left to do, of which the
// limits in docs/retrybudget.md tell.
func TestWhereThereIsNoRoomRetriesDoNoHarm(t *testing.T) {
	for n, c := range loads {
		if !nightly.On && (c.world.Horizon > 5*time.Minute || n%3 != 0) {
			continue
		}
		none := c.world.success(1, 1, nil, 2)
		for i, processes := range c.processes {
			if processes > nightly.Size(20, 4000) {
				continue
			}
			got, want := c.world.success(processes, 0, retryBudget, 2), c.before[i]
			if c.world.Fault.Errors > 0 {
				want = max(want, none)
			}
			t.Logf("%s, %d processes: %.1f, without retries %.1f, before %.1f", c.name, processes, got, none, c.before[i])
			require.GreaterOrEqual(t, got, want-c.margin, "%s, %d processes", c.name, processes)
			if c.world.Fault.For == 10*time.Second {
				require.GreaterOrEqual(t, got, none-5, "%s, %d processes", c.name, processes)
			}
		}
	}
}

var loads = []loaded{
	{"25 % fail at load .5", failing(one, .25, .5), usual, percents{89.1, 92.4, 94.3, 91.6}, 1},
	{"25 % fail at load .8", failing(one, .25, .8), usual, percents{88.9, 91.3, 95.4, 91.5}, 2},
	{"25 % fail at load .9", failing(one, .25, .9), usual, percents{88.9, 70.6, 48.6, 61.3}, 1},
	{"50 % fail at load .4", failing(one, .5, .4), usual, percents{69.5, 73.3, 72.8, 74.4}, 1},
	{"50 % fail at load .8", failing(one, .5, .8), usual, percents{69.2, 71.4, 67.4, 68.1}, 1},
	{"10 % fail at load .95", failing(one, .1, .95), usual, percents{68.9, 57.2, 41.4, 51.7}, 3},
	{"35 % fail at load .95", failing(one, .35, .95), usual, percents{61, 34.2, 32.2, 24.3}, 4},
	{"queue 200, cost .1, load 1.2", shedding(one, 200, .1, 1.2, 90*time.Second), usual, percents{80.6, 80, 78.8, 80}, 1},
	{"queue 200, cost .3, load 1.2", shedding(one, 200, .3, 1.2, 90*time.Second), usual, percents{72.4, 70.1, 66, 69.8}, 1},
	{"queue 200, cost .6, load 1.05", shedding(one, 200, .6, 1.05, 90*time.Second), usual, percents{74.5, 67.8, 56.5, 66.6}, 1},
	{"queue 10, cost .3, load 1.2", shedding(one, 10, .3, 1.2, 90*time.Second), usual, percents{70.7, 69.1, 65.4, 69}, 3},
	{"queue 10, cost .6, load 1.05", shedding(one, 10, .6, 1.05, 90*time.Second), usual, percents{67.7, 62, 54, 63.1}, 6},
	{"queue 200, cost .3, load 1.2, 15 min", shedding(one, 200, .3, 1.2, 15*time.Minute), usual, percents{72.3, 70.1, 66.4, 70.6}, 1},
	{"queue 200, cost .6, load 1.05, 15 min", shedding(one, 200, .6, 1.05, 15*time.Minute), usual, percents{74.1, 67.1, 57.8, 68.8}, 1},
	{"dip, load .8", slowing(one, .8, .3, time.Second), usual, percents{84.3, 83.3, 78.2, 76.6}, 1},
	{"dip, load .9", slowing(one, .9, .3, time.Second), usual, percents{67.8, 66.3, 56.7, 54.2}, 1},
	{"fresh: 10 % fail at load .95", failing(four, .1, .95), fresh, percents{71.9, 67.3, 48.9, 38.5}, 3},
	{"fresh: 40 % fail at load .7", failing(four, .4, .7), fresh, percents{76.7, 77.5, 83, 81.2}, 1},
	{"fresh: 35 % fail at load .95", failing(four, .35, .95), fresh, percents{63.8, 57.5, 38.5, 37.8}, 4},
	{"fresh: 70 % fail at load .3", failing(four, .7, .3), fresh, percents{54.5, 55.4, 56.4, 56.5}, 1},
	{"fresh: 20 % fail at load .88", failing(many, .2, .88), fresh, percents{92.7, 93.7, 62.8, 94.8}, 2},
	{"fresh: 45 % fail at load .65", failing(many, .45, .65), fresh, percents{72.8, 74, 79.5, 75.9}, 1},
	{"fresh: queue 100, cost .2, load 1.1", shedding(four, 100, .2, 1.1, 90*time.Second), fresh, percents{86.2, 85.9, 83.4, 83.9}, 1},
	{"fresh: queue 30, cost .5, load 1.3", shedding(four, 30, .5, 1.3, 90*time.Second), fresh, percents{47.6, 46.1, 37.4, 41.3}, 1},
	{"fresh: dip to half, load .7", slowing(four, .7, .5, 400*ms), fresh, percents{92, 91.9, 90, 89.9}, 1},
	{"fresh: dip to a quarter, load .85", slowing(many, .85, .25, time.Second), fresh, percents{76.2, 75.6, 69.6, 69.8}, 1},
}
