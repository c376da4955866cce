package presets

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// NewAWSAdaptive returns the budget of the adaptive retry mode of the AWS SDKs: the quota
// of the standard mode with a limit to the rate of all attempts, first ones included;
// [NewAWSQuota] with [NewAWSRate].
//
// In the SDK for Go the quota of this mode is never refilled (aws-sdk-go-v2 #3550); here
// it is. The mode is for one throttled resource: use it with a [backoff.Budgets] per
// table, bucket or tenant, or one of them slows them all.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior"; and as [AWSRate].
func NewAWSAdaptive() backoff.Budget { return backoff.JoinBudgets(NewAWSQuota(), NewAWSRate()) }

// AWSRate is the client rate limiter of the adaptive mode: CUBIC, as in TCP, on the rate
// of attempts. There is no limit until a first throttling answer. That cuts the rate to
// 0.7 of what was measured; every other answer sets it by a curve that is steep at first,
// flat near the rate that was throttled, and then steep again, but never beyond twice
// what is measured. The curve takes cbrt(0.75 * rate) seconds back to the rate that was
// throttled: 4.2 s for 100 a second. So the client stays within some percent of a limit
// that nobody has told it.
//
// Rates, curve and bucket are those of the SDK, to the last digit that its tests print.
// Where many attempts are under way at once, it differs:
//
//   - The SDK's callers sleep and try again, in no order. Here each is told at once when
//     its turn is, after all who wait, and one whose deadline that would pass ends at
//     once. A turn that was told stands, also when the rate changes. Where it rises,
//     there are turns between those that were told, for newcomers; nobody waits longer
//     for that.
//   - Throttling of an attempt that was granted before the last cut does not cut again.
//     In the SDK ten calls refused together take the rate down to a thirtieth.
//   - In its first second, before a slot of the measurement was full, it goes by what was
//     counted so far. The SDK falls to 0.5 a second, or little more.
//   - An attempt that was not made gives its turn back.
//
// The zero value is ready to use, and has no parameters, as there. An AWSRate must not be
// copied after first use. It is safe for concurrent use. A Done that never comes is an
// answer not measured; a second one changes nothing.
//
// Source: aws-sdk-go-v2, aws/retry/adaptive_ratelimit.go and adaptive_token_bucket.go,
// with the sequences of their tests; botocore, retries/adaptive.py, throttling.py.
type AWSRate struct {
	mu      sync.Mutex
	watch   stopwatch
	start   time.Duration
	ledger  ledger // of each attempt, when its turn is, and after how many cuts it was told
	bucket  awsBucket
	cubic   cubic
	meter   awsMeter
	answers float64 // since the start
	cuts    uint16  // from 1 when there is a limit; never 0 again
}

// NewAWSRate returns a new AWSRate.
func NewAWSRate() *AWSRate { return new(AWSRate) }

const (
	awsBeta        = 0.7
	awsScale       = 0.4
	awsSmooth      = 0.8
	awsMinRate     = 0.5
	awsMinCapacity = 1
)

// Reserve implements [backoff.Budget].
func (b *AWSRate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	read := a.Time()
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.advance(read)
	turn := now
	if b.cuts > 0 {
		turn = b.bucket.enter(now)
	}
	return b.ledger.open(uint64(turn/time.Microsecond)<<16 | uint64(b.cuts)), turn - now, true
}

// Done implements [backoff.Budget].
func (b *AWSRate) Done(t backoff.Ticket, r backoff.Result) {
	read := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	note, ok := b.ledger.close(t)
	if !ok {
		return
	}
	now := b.advance(read)
	if r.Outcome == backoff.OutcomeNotSent {
		if uint16(note) > 0 { // else there was no line
			b.bucket.leave(now, time.Duration(note>>16)*time.Microsecond)
		}
		return
	}
	b.meter.count(now)
	b.answers++
	switch {
	case r.Outcome != backoff.OutcomeThrottled:
		b.set(now, b.cubic.success(now))
	case uint16(note) == b.cuts:
		b.cut(now)
	}
}

// Rate returns how many attempts a second there may be: +Inf before there is a limit.
func (b *AWSRate) Rate() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cuts == 0 {
		return math.Inf(1)
	}
	return b.bucket.fill
}

// advance goes on to a reading of the clock. The time begins at a whole second, as the
// slots of the meters do.
func (b *AWSRate) advance(read time.Time) time.Duration {
	if b.watch.began.IsZero() {
		b.watch.read(read.Add(-time.Duration(read.Nanosecond())))
		b.start = b.watch.read(read)
		b.cubic.throttled, b.bucket.filled = b.start, b.start
	}
	now := b.watch.read(read)
	b.bucket.advance(now)
	return now
}

func (b *AWSRate) cut(now time.Duration) {
	reached := b.measured(now)
	if b.cuts > 0 {
		reached = min(reached, b.bucket.fill)
	}
	b.cuts = max(1, b.cuts+1)
	b.set(now, b.cubic.throttle(reached, now))
}

func (b *AWSRate) set(now time.Duration, rate float64) {
	b.bucket.resize(min(rate, 2*b.measured(now)))
}

// measured is the rate of answers. In the first second, a slot may have lasted less than
// the meter takes it for, or not be over; then all there were may say more.
func (b *AWSRate) measured(now time.Duration) float64 {
	if passed := now - b.start; passed < time.Second {
		return max(b.meter.rate, b.answers/max(0.01, passed.Seconds()))
	}
	return b.meter.rate
}

// cubic is the curve.
type cubic struct {
	most      float64       // the rate that was throttled last
	throttled time.Duration // when
}

func (c *cubic) throttle(reached float64, now time.Duration) float64 {
	c.most, c.throttled = reached, now
	return reached * awsBeta
}

func (c *cubic) success(now time.Duration) float64 {
	plateau := math.Cbrt(c.most * (1 - awsBeta) / awsScale)
	x := (now - c.throttled).Seconds() - plateau
	return awsScale*x*x*x + c.most
}

// awsMeter measures the rate of all answers, in slots of half a second.
type awsMeter struct {
	rate    float64
	answers float64 // in the current slot
	slot    float64 // where the current one began, in seconds
}

func (m *awsMeter) count(now time.Duration) {
	m.answers++
	slot := math.Floor(now.Seconds()*2) / 2
	if slot > m.slot {
		m.rate = m.answers/(slot-m.slot)*awsSmooth + m.rate*(1-awsSmooth)
		m.answers, m.slot = 0, slot
	}
}

// awsBucket is the tokens, and those who wait for one.
type awsBucket struct {
	tokens, capacity, fill float64
	filled                 time.Duration   // when
	turns                  []time.Duration // of those who wait, in order
}

// advance fills the bucket, and gives their tokens to those whose turn has come.
func (b *awsBucket) advance(now time.Duration) {
	gone := 0
	for gone < len(b.turns) && b.turns[gone] <= now {
		b.refill(b.turns[gone])
		b.tokens--
		gone++
	}
	b.turns = slices.Delete(b.turns, 0, gone)
	b.refill(now)
}

func (b *awsBucket) refill(now time.Duration) {
	b.tokens = min(b.tokens+b.fill*(now-b.filled).Seconds(), max(b.capacity, awsMinCapacity))
	b.filled = now
}

func (b *awsBucket) resize(rate float64) {
	b.fill = max(rate, awsMinRate)
	b.capacity = max(rate, awsMinCapacity)
	b.tokens = min(b.tokens, b.capacity)
}

// enter returns when the turn of a newcomer is: at the end of the line, or in a gap if
// there will be tokens for all who come after.
func (b *awsBucket) enter(now time.Duration) time.Duration {
	i := len(b.turns)
	for i > 0 && b.left(now, i-1) >= 1 {
		i--
	}
	need := 1 + float64(i) - b.tokens
	if need <= 0 {
		b.tokens--
		return now
	}
	at := (now + time.Duration(need/b.fill*float64(time.Second))).Truncate(time.Microsecond) + time.Microsecond
	b.turns = slices.Insert(b.turns, i, at)
	return at
}

// left is how many tokens there will be when the one at place i has gone.
func (b *awsBucket) left(now time.Duration, i int) float64 {
	return b.tokens + b.fill*(b.turns[i]-now).Seconds() - float64(i+1)
}

// leave takes somebody out of the line, or his token back if he has it.
func (b *awsBucket) leave(now, turn time.Duration) {
	if i, waits := slices.BinarySearch(b.turns, turn); waits {
		b.turns = slices.Delete(b.turns, i, i+1)
	} else if turn <= now {
		b.tokens = min(b.tokens+1, b.capacity)
	}
}

// Validate refuses a nil AWSRate; there is nothing else to be wrong.
func (b *AWSRate) Validate() error {
	if b == nil {
		return missing("AWSRate")
	}
	return nil
}
