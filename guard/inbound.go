package guard

import (
	"context"

	"github.com/gobackoff/backoff/internal/inbound"
)

// WithInboundDeadline returns ctx with a note for the breakers below: a client
// of this process has chosen its deadline. Then untrusted clients cannot open
// a circuit by deadlines that leave no time; see the MinAttemptTime of
// [backoff.Breaker]. It is for servers of protocols that this module does not
// know, and is called where a call comes in. An earlier deadline that is set
// later is not the client's. A ctx without a deadline is returned as it is.
func WithInboundDeadline(ctx context.Context) context.Context { return inbound.Mark(ctx) }
