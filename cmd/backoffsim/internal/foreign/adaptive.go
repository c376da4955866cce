package foreign

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/ledger"
	"github.com/gobackoff/backoff/presets"
)

// NewAWSAdaptive returns the budget of the adaptive retry mode of the AWS SDKs:
// [presets.NewAWSQuota], the quota of the standard mode, joined with [NewAWSRate], a
// limit to the rate of all attempts, first attempts included.
//
// In the SDK for Go the quota of this mode is never refilled (aws-sdk-go-v2
// #3550); here it is. The mode is for one throttled resource. Use one for each
// table, bucket or tenant, in its Service of package guard; otherwise one of them
// slows all others down.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior"; and the sources
// of [NewAWSRate].
func NewAWSAdaptive() backoff.Budget { return backoff.JoinBudgets(presets.NewAWSQuota(), NewAWSRate()) }

// NewAWSRate returns the client rate limiter of the adaptive mode. It controls
// the rate by CUBIC, as TCP does. A throttling response cuts the rate to 0.7 of
// the measured rate. Every other response sets the rate by a curve. The curve is
// steep at first, flat near the rate that was throttled, and then steep again.
// It takes cbrt(0.75 * rate) seconds to return to the rate that was throttled:
// 4.2 s for 100 a second. So the client stays within some percent of a limit
// that it does not know.
//
// Rates, curve and bucket are those of the SDK, to the last digit that the
// SDK's tests print. If many attempts are under way at once, it differs:
//
//   - In the SDK, callers sleep and try again, in no order. Here each attempt
//     is told its turn at once, after all that wait.
//   - Throttling of an attempt that was granted before the last cut does not
//     cut again. In the SDK, ten calls that are throttled together cut the rate
//     to a thirtieth.
//   - In the first second, before the first slot of the measurement is full,
//     it uses the responses counted so far. The SDK falls to 0.5 a second, or
//     little more.
//   - An attempt that was not sent gives its turn back.
//
// Source: aws-sdk-go-v2, aws/retry/adaptive_ratelimit.go and
// adaptive_token_bucket.go, with the sequences of their tests; botocore,
// retries/adaptive.py, throttling.py.
func NewAWSRate() *AdaptiveRate { return &AdaptiveRate{curve: new(cubic)} }

// NewHalvingRate returns a rate by exponential backoff: c throttling responses
// in a row leave 1/2^c of the rate. It rises in steps, more slowly than it fell:
// each second without throttling raises it by 9 %, so that eight make good for
// one fall.
//
// Source: Wikipedia, "Exponential backoff", on backoff as the control of a rate;
// Chiu and Jain, "Analysis of the increase and decrease algorithms for
// congestion avoidance", 1989.
func NewHalvingRate() *AdaptiveRate { return &AdaptiveRate{curve: new(halving)} }

// AdaptiveRate is a [backoff.Budget] that finds the rate a service accepts.
// There is no limit until the first throttling response. From then on each
// attempt waits for its turn. The rate is never beyond twice the rate of the
// responses, nor below one in 2 s. It is for programs that must behave like
// another system; a client of package backoffhttp has a pace.Pacer.
//
// An attempt whose turn is after its deadline ends at once. A turn stays
// reserved, even when the rate changes. When the rate rises, newcomers may get
// turns between those given out before; no attempt waits longer for that. An
// attempt that waits longer for another reason gets its turn after that.
//
// The zero value is that of [NewAWSRate]. An AdaptiveRate has no parameters,
// and must not be copied after first use. It is safe for concurrent use. If
// Done is never called for an attempt, its response is not measured; a second
// Done changes nothing.
type AdaptiveRate struct {
	backoff.BudgetDefaults

	mu      sync.Mutex
	watch   clock.Stopwatch
	start   time.Duration
	ledger  ledger.Ledger // notes when the turn of an attempt is, and how many cuts came before it
	bucket  awsBucket
	curve   curve
	meter   awsMeter
	answers float64 // number of answers since the start
	cuts    uint16  // number of cuts; 0 until there is a limit, never 0 again
}

// A curve is how the rate falls and rises.
type curve interface {
	// throttle handles throttling at the given rate, and returns the new rate.
	throttle(reached float64, now time.Duration) float64
	// success returns the rate after an answer that was not throttling.
	success(now time.Duration) float64
}

// The constants of the SDK.
const (
	awsBeta        = 0.7 // of CUBIC: what remains of the rate after throttling
	awsScale       = 0.4 // the factor of the cubic curve
	awsSmooth      = 0.8 // the weight of the last slot in the measured rate
	awsMinRate     = 0.5 // attempts per second
	awsMinCapacity = 1   // tokens
)

// Reserve implements [backoff.Budget].
func (b *AdaptiveRate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	read := a.Time()
	b.mu.Lock()
	defer b.mu.Unlock()
	t, wait := b.reserve(b.advance(read), a)
	return t, wait, true
}

// reserve gives an attempt its turn, unless the attempt waits for longer anyway
// and comes back in Pace.
func (b *AdaptiveRate) reserve(now time.Duration, a backoff.Attempt) (backoff.Ticket, time.Duration) {
	turn := now
	if b.cuts > 0 {
		turn = b.bucket.reserve(now)
	}
	note := uint64(turn/time.Microsecond)<<16 | uint64(b.cuts)
	if a.Paced && a.Wait > turn-now {
		b.release(now, note)
		return b.ledger.Add(withoutTurn), 0
	}
	return b.ledger.Add(note), turn - now
}

// withoutTurn is the note of an attempt that gets its turn in Pace.
const withoutTurn = math.MaxUint64

// Pace implements [backoff.Budget]. An attempt that has waited for another reason
// gets its turn now.
func (b *AdaptiveRate) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	read := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.advance(read)
	switch note, ok := b.ledger.Find(t); {
	case !ok:
		return t, 0, true
	case note != withoutTurn:
		return t, max(0, turnOf(note)-now), true
	}
	b.ledger.Remove(t)
	t, wait := b.reserve(now, backoff.Attempt{})
	return t, wait, true
}

// turnOf returns when the turn of a note is.
func turnOf(note uint64) time.Duration { return time.Duration(note>>16) * time.Microsecond }

// release gives the turn of a note back.
func (b *AdaptiveRate) release(now time.Duration, note uint64) {
	if uint16(note) > 0 && note != withoutTurn { // otherwise there was no limit yet
		b.bucket.giveBack(now, turnOf(note))
	}
}

// Done implements [backoff.Budget].
func (b *AdaptiveRate) Done(t backoff.Ticket, r backoff.Result) {
	read := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	note, ok := b.ledger.Remove(t)
	if !ok {
		return
	}
	now := b.advance(read)
	if r.NotSent {
		b.release(now, note)
		return
	}
	if note == withoutTurn { // it was made without Pace
		if note = uint64(b.cuts); b.cuts > 0 {
			b.bucket.reserve(now)
		}
	}
	b.meter.count(now)
	b.answers++
	switch {
	case r.String() != "throttled":
		b.setRate(now, b.curve.success(now))
	case uint16(note) == b.cuts:
		b.cut(now)
	}
}

// Rate returns how many attempts per second are allowed: +Inf before there is a
// limit.
func (b *AdaptiveRate) Rate() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cuts == 0 {
		return math.Inf(1)
	}
	return b.bucket.fill
}

// advance advances the budget to a reading of the clock, and returns the
// elapsed time. That starts at a whole second, as the slots of the meter do.
func (b *AdaptiveRate) advance(read time.Time) time.Duration {
	if !b.watch.Started() {
		b.watch.Elapsed(read.Add(-time.Duration(read.Nanosecond())))
		b.start = b.watch.Elapsed(read)
		b.bucket.filled = b.start
		if b.curve == nil {
			b.curve = new(cubic)
		}
	}
	now := b.watch.Elapsed(read)
	b.bucket.advance(now)
	return now
}

// cut handles throttling.
func (b *AdaptiveRate) cut(now time.Duration) {
	reached := b.measured(now)
	if b.cuts > 0 {
		reached = min(reached, b.bucket.fill)
	}
	b.cuts = max(1, b.cuts+1)
	b.setRate(now, b.curve.throttle(reached, now))
}

// setRate sets the rate, to at most twice the measured rate.
func (b *AdaptiveRate) setRate(now time.Duration, rate float64) {
	b.bucket.resize(min(rate, 2*b.measured(now)))
}

// measured returns the rate of answers. In the first second, a slot may be
// shorter than the meter assumes, or not be over. Then the count of all answers
// may say more.
func (b *AdaptiveRate) measured(now time.Duration) float64 {
	if passed := now - b.start; passed < time.Second {
		return max(b.meter.rate, b.answers/max(0.01, passed.Seconds()))
	}
	return b.meter.rate
}

// cubic is the curve along which the rate returns to the rate that was
// throttled.
type cubic struct {
	most      float64       // the rate that was throttled last
	throttled time.Duration // when it was throttled
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

// halving is the curve of [NewHalvingRate].
type halving struct {
	low  float64       // the rate after the last fall
	fell time.Duration // when the last fall was
}

// halvingSteps is how many seconds make good for one fall.
const halvingSteps = 8

func (h *halving) throttle(reached float64, now time.Duration) float64 {
	h.low, h.fell = max(reached/2, awsMinRate), now
	return h.low
}

func (h *halving) success(now time.Duration) float64 {
	steps := math.Floor((now - h.fell).Seconds())
	return h.low * math.Exp2(steps/halvingSteps)
}

// awsMeter measures the rate of all answers, in slots of half a second.
type awsMeter struct {
	rate    float64
	answers float64 // number of answers in the current slot
	slot    float64 // when the current slot began, in seconds
}

// count counts an answer.
func (m *awsMeter) count(now time.Duration) {
	m.answers++
	slot := math.Floor(now.Seconds()*2) / 2
	if slot > m.slot {
		m.rate = m.answers/(slot-m.slot)*awsSmooth + m.rate*(1-awsSmooth)
		m.answers, m.slot = 0, slot
	}
}

// awsBucket is a token bucket, and the turns of the attempts that wait for a
// token.
type awsBucket struct {
	tokens, capacity, fill float64
	filled                 time.Duration   // when tokens were last added
	turns                  []time.Duration // when the waiting attempts may start, in order
}

// advance fills the bucket, and takes the tokens of the attempts whose turn has
// come.
func (b *awsBucket) advance(now time.Duration) {
	due := 0
	for due < len(b.turns) && b.turns[due] <= now {
		b.refill(b.turns[due])
		b.tokens--
		due++
	}
	b.turns = slices.Delete(b.turns, 0, due)
	b.refill(now)
}

// refill adds the tokens that have accrued since the last refill.
func (b *awsBucket) refill(now time.Duration) {
	b.tokens = min(b.tokens+b.fill*(now-b.filled).Seconds(), max(b.capacity, awsMinCapacity))
	b.filled = now
}

// resize sets the rate at which the bucket fills, and its capacity.
func (b *awsBucket) resize(rate float64) {
	b.fill = max(rate, awsMinRate)
	b.capacity = max(rate, awsMinCapacity)
	b.tokens = min(b.tokens, b.capacity)
}

// reserve returns the turn of a new attempt. It is after all other turns, or in
// a gap between them if there will be tokens for all later turns.
func (b *awsBucket) reserve(now time.Duration) time.Duration {
	i := len(b.turns)
	for i > 0 && b.leftAfter(now, i-1) >= 1 {
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

// leftAfter returns how many tokens are left after the turn at index i.
func (b *awsBucket) leftAfter(now time.Duration, i int) float64 {
	return b.tokens + b.fill*(b.turns[i]-now).Seconds() - float64(i+1)
}

// giveBack removes a turn, or returns its token if the turn has come.
func (b *awsBucket) giveBack(now, turn time.Duration) {
	if i, waits := slices.BinarySearch(b.turns, turn); waits {
		b.turns = slices.Delete(b.turns, i, i+1)
	} else if turn <= now {
		b.tokens = min(b.tokens+1, b.capacity)
	}
}

// Validate refuses a nil AdaptiveRate. Nothing else can be wrong.
func (b *AdaptiveRate) Validate() error {
	if b == nil {
		return missing("AdaptiveRate")
	}
	return nil
}
