package aws

type Retryer interface{ MaxAttempts() int }

type NopRetryer struct{}

func (NopRetryer) MaxAttempts() int { return 1 }

type Config struct {
	RetryMaxAttempts int
	Retryer          func() Retryer
}
