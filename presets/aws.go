package presets

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/ledger"
	"github.com/gobackoff/backoff/pace"
)

// awsCap is the longest wait of the AWS SDKs.
const awsCap = 20 * time.Second

// AWSGoV2Legacy is the standard retryer of the AWS SDK for Go v2 in its default
// mode: 3 attempts, U(0, 2^n s), n from 1, and from the fifth retry on exactly
// 20 s, without jitter.
//
// The documentation ("aws-sdk-standard-doc" of [All]) starts at up to 1 s; the
// SDK counts from 1 and starts at up to 2 s. At the cap the documentation draws and then
// cuts; the SDK does not draw.
//
// Source: aws-sdk-go-v2, aws/retry; measured with v1.47.6.
func AWSGoV2Legacy() backoff.Policy {
	return exponential(3, 2*time.Second, awsCap, doubling, fullBelowCap)
}

// fullBelowCap is full jitter below the cap, and no jitter at the cap.
func fullBelowCap(delay, prev time.Duration, u float64) time.Duration {
	if delay >= awsCap {
		return delay
	}
	return backoff.FullJitter(delay, prev, u)
}

// AWS2026 is the retry behavior that AWS_NEW_RETRIES_2026=true chooses: 3
// attempts, U(0, min(20 s, 50 ms * 2^n)) after a transient error, and U(0,
// min(20 s, 1 s * 2^n)) after a throttling error, n from 0. Both keep their
// spread at the cap. n is the number of the retry in the call, for any earlier
// errors.
//
// The SDK also limits what x-amz-retry-after asks for to 5 s above its own wait;
// the library takes at most 4.5 s of it, and adds up to a tenth.
//
// Source: aws-sdk-go-v2; measured with v1.47.6, where it is opt-in.
func AWS2026() backoff.Policy { return aws2026(3, 50*time.Millisecond) }

func aws2026(attempts int, base time.Duration) backoff.Policy {
	p := exponential(attempts, base, awsCap, doubling, backoff.FullJitter)
	p.ByClass = map[backoff.Class]backoff.ClassLimits{
		backoff.ClassThrottled: {Schedule: backoff.Exponential{Initial: time.Second, Max: awsCap}},
	}
	return p
}

// AWSQuota is the retry quota that each client of the AWS SDKs has: a number of
// tokens, full at the start, from which each retry takes some. A retry that
// succeeds returns what it took, and every success adds a little. A retry is
// refused when there are not enough tokens.
//
// So retries that succeed are free: up to about a third of random failures
// nothing is limited. Only successes refill the quota, never time.
//
// It is safe for concurrent use; its fields must not be changed after first
// use. If Done is never called for a retry, its tokens stay taken, as in the
// SDK. A second Done changes nothing. A retry that was granted and not sent
// returns its tokens; the SDK keeps them.
//
// Source: aws-sdk-go-v2, aws/retry/standard.go and aws/ratelimit. The sequences
// of its retry2026_test.go are tests of this type.
type AWSQuota struct {
	backoff.BudgetDefaults

	// Capacity is how many tokens there are at the start and at most, 0 or
	// more.
	Capacity int
	// Cost is what a retry takes, 0 or more.
	Cost int
	// TimeoutCost is what a retry takes after an attempt that timed out.
	TimeoutCost int
	// ThrottleCost is what a retry takes after a throttling error.
	ThrottleCost int
	// Increment is what a success adds, 0 or more.
	Increment int
	// FirstOnly adds the increment only if a first attempt succeeded.
	FirstOnly bool

	mu     sync.Mutex
	ledger ledger.Ledger
	taken  int // tokens below Capacity
}

// NewAWSQuota returns the quota that the standard and adaptive modes had until
// 2026: 500 tokens, 5 for a retry, 10 after a timeout, and 1 back for every
// success, also of a retry.
//
// The SDK for Python gives 1 back only if a first attempt succeeded.
func NewAWSQuota() *AWSQuota {
	return &AWSQuota{Capacity: 500, Cost: 5, TimeoutCost: 10, ThrottleCost: 5, Increment: 1}
}

// NewAWSQuota2026 returns the quota that AWS_NEW_RETRIES_2026=true chooses: 500
// tokens, 14 for a retry, 5 after a throttling error, and 1 back for a first
// attempt that succeeds.
func NewAWSQuota2026() *AWSQuota {
	return &AWSQuota{Capacity: 500, Cost: 14, TimeoutCost: 14, ThrottleCost: 5, Increment: 1, FirstOnly: true}
}

// Reserve implements [backoff.Budget].
func (b *AWSQuota) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.First() {
		return b.ledger.Add(0), 0, true
	}
	cost := b.cost(a)
	if b.taken+cost > b.Capacity {
		return backoff.Ticket{}, 0, false
	}
	b.taken += cost
	return b.ledger.Add(uint64(cost)<<1 | 1), 0, true
}

// cost returns what an attempt takes.
func (b *AWSQuota) cost(a backoff.Attempt) int {
	switch {
	case a.Class == backoff.ClassThrottled:
		return b.ThrottleCost
	case a.TimedOut:
		return b.TimeoutCost
	}
	return b.Cost
}

// Done implements [backoff.Budget].
func (b *AWSQuota) Done(t backoff.Ticket, r backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note, ok := b.ledger.Remove(t)
	if !ok || r.Failed {
		return
	}
	b.taken -= int(note >> 1)
	if !r.NotSent && (note == 0 || !b.FirstOnly) {
		b.taken -= b.Increment
	}
	b.taken = max(0, b.taken)
}

// Tokens returns how many tokens are left.
func (b *AWSQuota) Tokens() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Capacity - b.taken
}

// Validate returns an error that names a field out of its range.
func (b *AWSQuota) Validate() error {
	if b == nil {
		return backoff.Permanent(badfield.Nil("presets.AWSQuota", true))
	}
	return cmp.Or(
		check(b.Capacity >= 0, "AWSQuota.Capacity", b.Capacity, "0 or more"),
		check(b.Cost >= 0, "AWSQuota.Cost", b.Cost, "0 or more"),
		check(b.TimeoutCost >= 0, "AWSQuota.TimeoutCost", b.TimeoutCost, "0 or more"),
		check(b.ThrottleCost >= 0, "AWSQuota.ThrottleCost", b.ThrottleCost, "0 or more"),
		check(b.Increment >= 0, "AWSQuota.Increment", b.Increment, "0 or more"),
	)
}

// AWSRetry is the retry setting of the AWS SDKs, as text: of the environment, or
// of a profile in the shared config file.
//
//	policy, err := presets.AWSRetry{
//		MaxAttempts: os.Getenv("AWS_MAX_ATTEMPTS"),
//		Mode:        os.Getenv("AWS_RETRY_MODE"),
//	}.Policy()
//
// The values mean what they mean to the SDK for Go. The guide of all SDKs wants
// a number greater than 0; the SDK for Go takes others as the fields say.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior"; aws-sdk-go-v2,
// config (env_config.go, shared_config.go) and aws/retry; measured with
// v1.47.6.
type AWSRetry struct {
	// MaxAttempts is AWS_MAX_ATTEMPTS or max_attempts, a whole number: the
	// attempts of a call, the first included. Empty and 0 mean 3, and a
	// negative number means no limit.
	MaxAttempts string
	// Mode is AWS_RETRY_MODE or retry_mode: "standard" or "adaptive". Empty
	// means standard. "legacy" is an error, as in the SDK for Go: it differs
	// between the SDKs.
	Mode string
}

// Policy returns the policy of a client with this setting: [AWSGoV2Legacy] with
// its own number of attempts and, as Budget, a new [NewAWSQuota]. In the adaptive
// mode a [pace.Pacer] is joined with that, in place of the rate limiter of the SDK:
// it also limits first attempts. So call Policy once for each client, and not for
// each call.
//
// With AWS_NEW_RETRIES_2026=true in the environment, the SDK waits as [AWS2026]
// and has [NewAWSQuota2026]. Policy does not read the environment; set Schedule,
// ByClass, Jitter and Budget of what it returns.
func (r AWSRetry) Policy() (backoff.Policy, error) {
	attempts, notANumber := strconv.ParseInt(cmp.Or(r.MaxAttempts, "0"), 10, 32)
	err := cmp.Or(
		check(notANumber == nil,
			"AWSRetry.MaxAttempts", strconv.Quote(r.MaxAttempts), "a whole number of at most 32 bits"),
		check(r.Mode == "" || r.Mode == "standard" || r.Mode == "adaptive",
			"AWSRetry.Mode", strconv.Quote(r.Mode), `"standard" or "adaptive"`),
	)
	if err != nil {
		return backoff.Policy{}, err
	}
	policy := AWSGoV2Legacy()
	policy.MaxAttempts = cmp.Or(int(attempts), policy.MaxAttempts)
	policy.Budget = NewAWSQuota()
	if r.Mode == "adaptive" {
		policy.Budget = backoff.JoinBudgets(policy.Budget, new(pace.Pacer))
	}
	return policy, nil
}
