package sim

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// With SIM=full in the environment, the tables of the reference are run at full size, and printed.
var full = os.Getenv("SIM") == "full"

// pick chooses between the size of every day and that of the tables.
func pick[T any](small, large T) T {
	if full {
		return large
	}
	return small
}

// A want is a figure of the reference, made of so many seeds.
type want struct {
	mean, se float64
	seeds    int
}

// agree requires that got, of so many seeds, is what the reference has, within slack beyond
// the errors.
func agree(t *testing.T, w want, got Figure, seeds int, slack float64, what string, args ...any) {
	t.Helper()
	se := max(got.SE, w.se*math.Sqrt(float64(w.seeds)/float64(seeds)))
	require.InDelta(t, w.mean, got.Mean, 3*math.Hypot(se, w.se)+0.02*math.Abs(w.mean)+slack, fmt.Sprintf(what, args...))
}

func run(t *testing.T, s Scenario, seeds int, clients ...Client) []Result {
	t.Helper()
	results, err := Compare(s, clients, Options{Seeds: seeds})
	require.NoError(t, err)
	return results
}

func named(t *testing.T, clients []Client, name string) Client {
	t.Helper()
	i := slices.IndexFunc(clients, func(c Client) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, "no client %q", name)
	return clients[i]
}

func report(format string, args ...any) {
	if full {
		fmt.Printf(format, args...)
	}
}

func recoveryText(r Result) string {
	switch {
	case r.Never == r.Seeds:
		return "never"
	case r.Never > 0:
		return fmt.Sprintf("%.1f (never in %d of %d)", r.Recovery.Mean, r.Never, r.Seeds)
	}
	return fmt.Sprintf("%.1f", r.Recovery.Mean)
}

// capped makes a bucket like b for every process.
func capped(b *TokenBucket) func() backoff.Budget {
	return func() backoff.Budget { made := *b; return &made }
}
