package refused

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// maxOwnWait is the longest wait for which a service asks because of a circuit of its
// own. Callers that stay away longer would not notice that it closes.
const maxOwnWait = 5 * time.Second

// Unsent reports whether err is that of a call which a breaker refused before its first
// attempt. Whoever makes the call again repeats nothing.
func Unsent(err error) bool {
	if gave, ok := errtree.As[*backoff.Error](err); ok && gave.Last != nil {
		return Unsent(gave.Last)
	}
	return errtree.Is(err, backoff.ErrOpen)
}

// Wait returns for how long a service asks its callers to wait after err, which asks
// for d.
func Wait(err error, d time.Duration) time.Duration {
	if errtree.Is(err, backoff.ErrOpen) {
		return min(d, maxOwnWait)
	}
	return d
}
