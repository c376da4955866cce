package sim

import (
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/presets"
)

// RateLimit returns a job of 1000 calls, which 50 workers make as fast as they
// can, at an API that accepts 100 a second, and 100 at once after a pause. So the
// job takes 9 s at the least. The service itself takes no time, and a message 1
// ms.
func RateLimit() Scenario {
	return Scenario{
		Name:    "ratelimit",
		Users:   50,
		Calls:   1000,
		Delay:   time.Millisecond,
		Server:  Server{Rate: 100, Burst: 100},
		Horizon: 10 * time.Minute,
	}
}

// rateLimitReferences returns what calls a rate-limited API in practice.
func rateLimitReferences() []Client {
	return []Client{
		None(),
		Naive(),
		NewClient("full jitter", fullJitter(), nil, nil),
		NewClient("go-retryablehttp", presets.RetryableHTTP(), nil, nil),
		NewClient("AWS adaptive", fullJitter(), awsAdaptive, nil),
		NewClient("Policy + RetryBudget", backoff.Policy{}, retryBudget, nil),
		Default(),
		paced(),
		HTTPDefault(),
	}
}

func newPacer() backoff.Budget    { return new(pace.Pacer) }
func awsAdaptive() backoff.Budget { return presets.NewAWSAdaptive() }

// paced returns a client with a zero Policy and a zero Pacer.
func paced() Client { return NewClient("Policy + Pacer", backoff.Policy{}, newPacer, nil) }

// HTTPDefault returns a client with the defaults of a Transport of package
// backoffhttp for one host: a zero Policy with a zero Pacer, inside a zero
// Breaker.
func HTTPDefault() Client { return NewClient("HTTP default", backoff.Policy{}, newPacer, newBreaker) }

// jobOutcome says how a job went.
func jobOutcome(s *Scenario, r *Result) string {
	least := s.LeastTime().Seconds()
	if r.Lost.Mean > 0 {
		return fmt.Sprintf("fails %.0f of the %d calls of a job that takes %.1f s at the least", r.Lost.Mean,
			s.Calls, least)
	}
	return fmt.Sprintf("does all %d calls in %.1f s, %.2f times the least", s.Calls, r.Drain.Mean, r.Drain.Mean/least)
}
