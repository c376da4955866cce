package guard

import (
	"context"

	"github.com/gobackoff/backoff/internal/inbound"
)

// WithInboundDeadline tells the breakers of calls under ctx that a client of this process
// chose the deadline of ctx. Untrusted clients then cannot open a circuit by deadlines
// that leave no time: see MinAttemptTime of [backoff.Breaker]. Call it where a request
// comes in, in servers of protocols that this module does not know. It does not hold for
// an earlier deadline that this process sets afterwards. A ctx without a deadline is
// returned as it is.
func WithInboundDeadline(ctx context.Context) context.Context { return inbound.Mark(ctx) }
