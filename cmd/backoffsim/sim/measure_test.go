package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// A want is a figure of the reference, over a number of seeds.
type want struct {
	mean, se float64
	seeds    int
}

// agree requires that a figure over a number of seeds agrees with the reference
// within the standard errors, 2 % and slack.
func agree(t *testing.T, w want, got Figure, seeds int, slack float64, what string, args ...any) {
	t.Helper()
	se := max(got.SE, w.se*math.Sqrt(float64(w.seeds)/float64(seeds)))
	require.InDelta(t, w.mean, got.Mean, 3*math.Hypot(se, w.se)+0.02*math.Abs(w.mean)+slack, fmt.Sprintf(what, args...))
}

// run simulates clients that must be valid.
func run(t *testing.T, s Scenario, seeds int, clients ...Client) []Result {
	t.Helper()
	results, err := Compare(s, clients, Options{Seeds: seeds})
	require.NoError(t, err)
	return results
}

// named returns the client with a name.
func named(t *testing.T, clients []Client, name string) Client {
	t.Helper()
	i := slices.IndexFunc(clients, func(c Client) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, "no client %q", name)
	return clients[i]
}

// capped returns a function that makes a copy of b for each process.
func capped(b *TokenBucket) func() backoff.Budget {
	return func() backoff.Budget { made := *b; return &made }
}
