package presets

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
)

// PrometheusQueue is the part of the queue_config of Prometheus' remote_write
// that concerns retries. The delay doubles and has no jitter. A batch is sent
// until it is accepted or refused, without a limit of time. Where a file
// leaves out a member, Prometheus has {30 ms, 5 s, false}; a 0 in the file is
// 0.
//
// Source: prometheus, config/config.go (QueueConfig) and
// storage/remote/queue_manager.go (sendWriteRequestWithBackoff), v0.315.0.
type PrometheusQueue struct {
	// MinBackoff is the delay before the first retry, 0 or more. 0 means none
	// before any retry, since twice 0 is 0.
	MinBackoff time.Duration
	// MaxBackoff bounds the delay, at least MinBackoff. 0 is therefore valid
	// only with a MinBackoff of 0.
	MaxBackoff time.Duration
	// RetryOnHTTP429 also retries a response of 429. Otherwise it is final.
	RetryOnHTTP429 bool
}

// Policy returns the policy of a queue with this configuration. It retries
// forever, and waits as long as a server asks for: MaxRetryAfter is -1.
// Classify retries any 5xx, and 429 if the configuration says so; every other
// status is final. Errors without a status keep the library's defaults: a name
// that does not exist is final here, which Prometheus retries too.
//
// Prometheus sends a POST again. Under backoffhttp that needs Idempotency:
// backoff.AlwaysRetry.
func (c PrometheusQueue) Policy() (backoff.Policy, error) {
	err := atLeast0("PrometheusQueue.MinBackoff", c.MinBackoff)
	if err == nil && c.MaxBackoff < c.MinBackoff {
		err = badfield.New("presets.PrometheusQueue.MaxBackoff",
			"is "+c.MaxBackoff.String()+", want at least MinBackoff, "+c.MinBackoff.String())
	}
	if err != nil {
		return backoff.Policy{}, err
	}
	return backoff.Policy{
		MaxAttempts:   -1,
		Schedule:      growing(c.MinBackoff, c.MaxBackoff, 2),
		Jitter:        backoff.NoJitter,
		MaxRetryAfter: -1,
		Classify: byStatus(func(code int) bool {
			return is5xx(code) || c.RetryOnHTTP429 && code == 429
		}),
	}, nil
}
