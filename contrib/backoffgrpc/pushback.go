package backoffgrpc

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
)

// parsePushback reads grpc-retry-pushback-ms, given all its values, and returns
// what [backoff.Pushback] takes. It returns false if there is no value.
// A negative number, a malformed value and more than one value all mean "do not
// retry", and give -1. Large numbers saturate.
//
// Source: gRFC A6, "Pushback".
func parsePushback(values []string) (time.Duration, bool) {
	switch {
	case len(values) == 0:
		return 0, false
	case len(values) > 1 || values[0] == "" || strings.Trim(values[0], "0123456789") != "":
		return -1, true
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, true
	}
	return time.Duration(ms) * time.Millisecond, true
}

// growth is the Jitter of one call. If a server asks again and again for the same
// wait by RetryInfo, the wait doubles each time, as google.rpc.RetryInfo wants
// it. What the server asks for is still the least wait, and all that the limits
// of the policy see.
type growth struct {
	jitter  backoff.Jitter // of the policy
	longest time.Duration

	inRow int           // failures in a row that had a RetryInfo
	base  time.Duration // the shortest wait that these asked for
	least time.Duration // before the next attempt; 0 for no bound
}

// longestGrown is the longest wait where Policy.MaxRetryAfter sets none: its
// default.
const longestGrown = 5 * time.Minute

// grow makes the waits of a policy, which must be that of one call, grow. The
// growth must hear of every failure of the call.
func grow(p *backoff.Policy) *growth {
	g := &growth{jitter: p.Jitter, longest: cmp.Or(max(0, p.MaxRetryAfter), longestGrown)}
	if g.jitter == nil {
		g.jitter = backoff.FullJitter
	}
	p.Jitter = g.wait
	return g
}

// hear takes note of the error of an attempt, and returns it.
func (g *growth) hear(err error) error {
	asked, told := retryInfo(err)
	if g.inRow > 0 {
		asked = min(asked, g.base)
	}
	g.base, g.least = asked, time.Duration(min(math.Ldexp(float64(asked), g.inRow), float64(g.longest)))
	if g.inRow++; !told {
		g.inRow = 0
	}
	return err
}

// wait is the Jitter.
func (g *growth) wait(delay, prev time.Duration, u float64) time.Duration {
	return max(g.jitter(delay, prev, u), g.least+time.Duration(u*float64(g.least/10)))
}
