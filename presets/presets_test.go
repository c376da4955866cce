package presets_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/presets"
)

const (
	float  = 2 * time.Nanosecond // what floating point may be off by
	enough = 300                 // attempts that are taken for no limit
	top    = 1 - 1.0/(1<<53)     // the largest number that a generator draws
)

var errTransient = errors.New("transient")

func TestEveryRowHasItsPresetAndNoPresetIsWithoutARow(t *testing.T) {
	var want []string
	for _, row := range rows {
		want = append(want, row.name)
	}
	require.Len(t, want, 55)
	require.ElementsMatch(t, want, names())
	require.Equal(t, names(), names(), "the order is the same every time")
}

func TestEveryPresetIsValidAndNew(t *testing.T) {
	for name, p := range presets.All() {
		require.NoError(t, p.Validate(), name)
		require.Empty(t, p.Name, "%s: the name is that of the user's operation", name)
		p.MaxAttempts, p.Schedule = 99, nil
		again := byName(t, name)
		require.NotEqual(t, 99, again.MaxAttempts, name)
		require.NotNil(t, again.Schedule, name)
	}
}

func TestDelaysAreThoseOfTheRow(t *testing.T) {
	for _, row := range rows {
		p := byName(t, row.name)
		for i, want := range durations(t, row.delays) {
			got := p.Schedule.Delay(i + 1)
			if p.MaxDelay > 0 {
				got = min(got, p.MaxDelay) // where the cap is on what the jitter made of it
			}
			require.InDelta(t, want, got, 1, "%s: retry %d: want %v, got %v", row.name, i+1, want, got)
		}
	}
}

func TestDrawsStayWithinTheBoundsOfTheRowAndReachThem(t *testing.T) {
	nightly.Long(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := byName(t, row.name)
			smallest, largest := waits(t, endless(p, always(0)), 8), waits(t, endless(p, always(top)), 8)
			bounds := row.intervals(t)
			for i, bound := range bounds {
				require.InDelta(t, bound[0], min(smallest[i], largest[i]), float64(float), "retry %d", i+1)
				require.InDelta(t, bound[1], max(smallest[i], largest[i]), float64(row.grain+float), "retry %d", i+1)
			}
			p = endless(p, seeded())
			for range nightly.Size(3000, 10_000) {
				for i, wait := range waits(t, p, 8) {
					if wait < bounds[i][0]-float || wait > bounds[i][1]+float {
						require.Failf(t, "out of bounds", "retry %d: %v", i+1, wait)
					}
				}
			}
		})
	}
}

func TestGivesUpByTheRuleOfTheRow(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := byName(t, row.name)
				p.Rand = seeded()
				require.Equal(t, max(row.total, 0), p.MaxElapsed)
				began := time.Now()
				made, err := exhaust(t, p)
				switch {
				case row.attempts > 0:
					require.Equal(t, backoff.ReasonAttempts, err.Reason)
					require.Equal(t, row.attempts, made)
				case row.attempts == 0:
					require.Equal(t, backoff.ReasonAttempts, err.Reason)
					require.Equal(t, 4, made, "the library's default stands")
				case row.total > 0:
					require.Equal(t, backoff.ReasonElapsed, err.Reason)
					require.LessOrEqual(t, time.Since(began), row.total)
				default:
					require.Equal(t, backoff.ReasonCanceled, err.Reason)
					require.Equal(t, enough, made)
				}
			})
		})
	}
}

func TestNothingOverflowsHoweverManyRetries(t *testing.T) {
	for name, p := range presets.All() {
		for _, u := range []float64{0, 0.5, top} {
			p.Rand = always(u)
			before, longest := p.Schedule.Delay(20), p.WaitBefore(20)
			for _, retry := range []int{62, 63, 64, 65, 1000, 1 << 30, math.MaxInt} {
				require.GreaterOrEqual(t, p.Schedule.Delay(retry), before, "%s: retry %d", name, retry)
				require.GreaterOrEqual(t, p.WaitBefore(retry), longest, "%s: retry %d", name, retry)
			}
		}
	}
}

func TestParametersThatMakeNoSenseAreRefused(t *testing.T) {
	for name, p := range map[string]backoff.Policy{
		"IoT Core, a maximum below a second": presets.IoTCore(500 * time.Millisecond),
		"gcloud, a maximum below the first":  presets.GCloud(2*time.Second, 0, 0, time.Second),
		"C++, a scaling below 1":             presets.GCSCpp(0, 0, 0.5, 0),
		"Node.js, a maximum below the first": presets.GCSNode(0, 3, 2*time.Second, 0),
		"SIP, T2 below T1":                   presets.SIPTimerE(time.Second, 500*time.Millisecond),
		"slots, a base below 1":              presets.ExponentialSlots(0.5, 0),
		"slots, a negative base":             presets.ExponentialSlots(-1, 0),
		"slots, a base that is no number":    presets.ExponentialSlots(math.NaN(), 0),
		"slots, a base without an end":       presets.ExponentialSlots(math.Inf(1), 0),
		"slots, negative":                    presets.ExponentialSlots(0, -1),
		"Ethernet, a negative slot":          presets.Ethernet(-1),
		"CSMA/CA, a negative slot":           presets.CSMACA(-1, 0, 0),
	} {
		require.Error(t, p.Validate(), name)
	}
}

func names() []string {
	var all []string
	for name := range presets.All() {
		all = append(all, name)
	}
	return all
}

func byName(t *testing.T, name string) backoff.Policy {
	t.Helper()
	for n, p := range presets.All() {
		if n == name {
			return p
		}
	}
	require.FailNow(t, "no such preset", name)
	return backoff.Policy{}
}

func durations(t *testing.T, list string) []time.Duration {
	t.Helper()
	var all []time.Duration
	for text := range strings.FieldsSeq(list) {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		all = append(all, d)
	}
	if len(all) > 0 {
		require.Len(t, all, 8)
	}
	return all
}

// intervals returns the bounds of the first eight waits.
func (r row) intervals(t *testing.T) (all [][2]time.Duration) {
	t.Helper()
	if r.bounds != exact && r.bounds != full && r.bounds != fullBut0 {
		all = intervals(t, r.bounds)
		require.Len(t, all, 8)
		return all
	}
	for _, delay := range durations(t, r.delays) {
		least := map[string]time.Duration{exact: delay, full: 0, fullBut0: 1}[r.bounds]
		all = append(all, [2]time.Duration{least, delay})
	}
	return all
}

func intervals(t *testing.T, list string) [][2]time.Duration {
	t.Helper()
	flat := strings.NewReplacer("[", "", "]", "", ",", " ").Replace(list)
	var all [][2]time.Duration
	for pair := range slices.Chunk(strings.Fields(flat), 2) {
		lo, err := time.ParseDuration(pair[0])
		require.NoError(t, err)
		hi, err := time.ParseDuration(pair[1])
		require.NoError(t, err)
		all = append(all, [2]time.Duration{lo, hi})
	}
	return all
}

// endless is p without limits, so that every retry can be seen.
func endless(p backoff.Policy, draw func() float64) backoff.Policy {
	p.MaxAttempts, p.MaxElapsed, p.AttemptTimeout, p.AttemptTimeoutSchedule, p.Rand = -1, 0, 0, nil, draw
	return p
}

// waits are those before the first n retries of one call.
func waits(t *testing.T, p backoff.Policy, n int) []time.Duration {
	t.Helper()
	all := make([]time.Duration, n)
	run := p.Start(context.Background())
	for i := range all {
		wait, ok := run.Tried(errTransient)
		if !ok {
			require.NoError(t, run.Err())
		}
		all[i] = wait
	}
	return all
}

// exhaust runs an operation that always fails, and says how often that was.
func exhaust(t *testing.T, p backoff.Policy) (made int, gaveUp *backoff.Error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := p.Do(ctx, func(context.Context) error {
		if made++; made == enough {
			cancel()
		}
		return errTransient
	})
	require.ErrorIs(t, err, errTransient)
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, made, gaveUp.Attempts)
	return made, gaveUp
}

func always(u float64) func() float64 { return func() float64 { return u } }

func seeded() func() float64 { return rand.New(rand.NewPCG(1, 2)).Float64 }

// A row is what the sources say of one system. Durations are those of the
// retries 1 to 8.
type row struct {
	name     string
	attempts int           // 0 where the source names no limit, -1 for none at all
	total    time.Duration // 0 for none
	grain    time.Duration // by how much the largest draw may miss the upper bound
	delays   string        // before jitter; "" where the source has none
	bounds   string        // of the wait
}

// The bounds of the jitters that most systems have.
const (
	exact    = "[delay,delay]"
	full     = "[0,delay]"
	fullBut0 = "[1ns,delay]"
)

var rows = []row{
	{"table-constant-1s", 0, 0, 0, "1s 1s 1s 1s 1s 1s 1s 1s", exact},
	{"table-linear-1s", 0, 0, 0, "1s 2s 3s 4s 5s 6s 7s 8s", exact},
	{"table-exponential-1s", 0, 0, 0, "1s 2s 4s 8s 16s 32s 64s 128s", exact},
	{"canonical-capped-100ms-30s", 0, 0, 0, "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s", exact},
	{"canonical-capped-factor1.5", 0, 0, 0,
		"100ms 150ms 225ms 337.5ms 506.25ms 759.375ms 1.1390625s 1.70859375s", exact},
	{"ts-helper-defaults", 0, 0, 0, "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s", full},
	{"ts-example-200ms-5s-equal", 5, 0, 0, "200ms 400ms 800ms 1.6s 3.2s 5s 5s 5s",
		"[100ms,200ms] [200ms,400ms] [400ms,800ms] [800ms,1.6s] [1.6s,3.2s] [2.5s,5s] [2.5s,5s] [2.5s,5s]"},

	{"aws-full-jitter-100ms-30s", 0, 0, 0, "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s", full},
	{"aws-equal-jitter-100ms-30s", 0, 0, 0, "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		"[50ms,100ms] [100ms,200ms] [200ms,400ms] [400ms,800ms] [800ms,1.6s] [1.6s,3.2s] [3.2s,6.4s] [6.4s,12.8s]"},
	{"aws-decorrelated-100ms-30s", 0, 0, 121, "", // 1+3+9+27+81 ns: each wait is cut to a nanosecond, and tripled
		"[100ms,300ms] [100ms,900ms] [100ms,2.7s] [100ms,8.1s] [100ms,24.3s] [100ms,30s] [100ms,30s] [100ms,30s]"},
	{"aws-simulator-5-2000", -1, 0, 0, "10ms 20ms 40ms 80ms 160ms 320ms 640ms 1.28s", exact},
	{"aws-sdk-standard-doc", 3, 0, 0, "1s 2s 4s 8s 16s 20s 20s 20s", full},
	{"aws-sdk-go-v2-legacy", 3, 0, 0, "2s 4s 8s 16s 20s 20s 20s 20s",
		"[0us,2s] [0us,4s] [0us,8s] [0us,16s] [20s,20s] [20s,20s] [20s,20s] [20s,20s]"},
	{"aws-sdk-2026-transient", 3, 0, 0, "50ms 100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s", full},
	{"aws-sdk-2026-dynamodb", 4, 0, 0, "25ms 50ms 100ms 200ms 400ms 800ms 1.6s 3.2s", full},
	{"aws-sdk-2026-throttling", 3, 0, 0, "1s 2s 4s 8s 16s 20s 20s 20s", full},

	{"ieee-802.3-truncated-beb", 16, 0, 0, "",
		"[0us,51.2us] [0us,153.6us] [0us,358.4us] [0us,768us] [0us,1.5872ms] [0us,3.2256ms] [0us,6.5024ms] [0us,13.056ms]"},
	{"ethernet-untruncated-beb", 0, 0, 0, "",
		"[0us,51.2us] [0us,153.6us] [0us,358.4us] [0us,768us] [0us,1.5872ms] [0us,3.2256ms] [0us,6.5024ms] [0us,13.056ms]"},
	{"csma-ca-ofdm", 0, 0, 0, "",
		"[0us,135us] [0us,279us] [0us,567us] [0us,1.143ms] [0us,2.295ms] [0us,4.599ms] [0us,9.207ms] [0us,9.207ms]"},

	{"sip-timer-a", -1, 32 * time.Second, 0, "500ms 1s 2s 4s 8s 16s 32s 64s", exact},
	{"sip-timer-e", -1, 32 * time.Second, 0, "500ms 1s 2s 4s 4s 4s 4s 4s", exact},
	{"sip-timer-g", -1, 32 * time.Second, 0, "500ms 1s 2s 4s 4s 4s 4s 4s", exact},

	{"iot-core-32s", 0, 0, 0, "1s 2s 4s 8s 16s 32s 32s 32s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,32s] [32s,32s] [32s,32s]"},
	{"iot-core-64s", 0, 0, 0, "1s 2s 4s 8s 16s 32s 64s 64s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,33s] [64s,64s] [64s,64s]"},
	{"api-n5", 6, 0, 0, "1s 2s 4s 8s 16s 32s 64s 128s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,33s] [64s,65s] [128s,129s]"},
	{"gcloud-cli", 33, 0, 0, "1s 2s 4s 8s 16s 32s 32s 32s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,32s] [32s,32s] [32s,32s]"},
	{"extra-gsutil", 24, 0, 0, "1s 2s 4s 8s 16s 32s 60s 60s", full},

	{"gcs-cpp-default", -1, 900 * time.Second, time.Millisecond, "",
		"[1s,2s] [2s,4s] [4s,8s] [8s,16s] [16s,32s] [32s,64s] [64s,128s] [128s,256s]"},
	{"gcs-cpp-custom-3x", -1, 300 * time.Second, time.Millisecond, "",
		"[1s,3s] [3s,9s] [9s,27s] [20s,60s] [20s,60s] [20s,60s] [20s,60s] [20s,60s]"},
	{"gcs-go-default", -1, 0, 0, "1s 2s 4s 8s 16s 30s 30s 30s", fullBut0},
	{"gcs-go-resumable-chunk", -1, 32 * time.Second, 0,
		"100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s", fullBut0},
	{"gcs-go-custom", -1, 500 * time.Second, 0, "2s 6s 18s 54s 60s 60s 60s 60s", fullBut0},
	{"gcs-java-default", 6, 50 * time.Second, time.Millisecond, "1s 2s 4s 8s 16s 32s 32s 32s", full},
	{"gcs-java-custom", 10, 300 * time.Second, time.Millisecond, "1s 3s 9s 27s 32s 32s 32s 32s", full},
	{"gcs-node-seed", 4, 600 * time.Second, 0, "1s 2s 4s 8s 16s 32s 64s 64s", exact},
	{"gcs-node-primary", 4, 600 * time.Second, 0, "2s 4s 8s 16s 32s 64s 64s 64s",
		"[2s,2.999s] [4s,4.999s] [8s,8.999s] [16s,16.999s] [32s,32.999s] [64s,64s] [64s,64s] [64s,64s]"},
	{"gcs-node-custom", 6, 500 * time.Second, 0, "3s 9s 27s 60s 60s 60s 60s 60s",
		"[3s,3.999s] [9s,9.999s] [27s,27.999s] [60s,60s] [60s,60s] [60s,60s] [60s,60s] [60s,60s]"},
	{"gcs-python-default", -1, 120 * time.Second, 0, "1s 2s 4s 8s 16s 32s 60s 60s", full},
	{"gcs-python-custom", -1, 500 * time.Second, 0,
		"1.5s 1.8s 2.16s 2.592s 3.1104s 3.73248s 4.478976s 5.3747712s", full},
	{"gcs-ruby-default", 4, 900 * time.Second, 0, "1s 2s 4s 8s 16s 32s 60s 60s",
		"[500ms,1.5s] [1s,3s] [2s,6s] [4s,12s] [8s,24s] [16s,48s] [30s,90s] [30s,90s]"},
	{"gcs-ruby-custom", 6, 500 * time.Second, 0, "1.5s 1.8s 2.16s 2.592s 3.1104s 3.73248s 4.478976s 5.3747712s",
		"[750ms,2.25s] [900ms,2.7s] [1.08s,3.24s] [1.296s,3.888s] [1.5552s,4.6656s] [1.86624s,5.59872s] [2.239488s,6.718464s] [2.6873856s,8.0621568s]"},
	{"gcs-php-default", 4, 0, 0, "1s 2s 4s 8s 16s 32s 60s 60s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,33s] [60s,60s] [60s,60s]"},
	{"gcs-csharp-default", 0, 0, 0, "1s 2s 4s 8s 16s 32s 32s 32s", exact},

	{"envoy-retry-docs", 2, 0, time.Millisecond, "25ms 75ms 175ms 250ms 250ms 250ms 250ms 250ms", full},
	{"envoy-retry-source", 2, 0, 0, "25ms 50ms 100ms 200ms 250ms 250ms 250ms 250ms",
		"[0us,24ms] [0us,49ms] [0us,99ms] [0us,199ms] [0us,249ms] [0us,249ms] [0us,249ms] [0us,249ms]"},
	{"istio-virtualservice-retry", 4, 0, 0, "25ms 50ms 100ms 200ms 250ms 250ms 250ms 250ms",
		"[0us,24ms] [0us,49ms] [0us,99ms] [0us,199ms] [0us,249ms] [0us,249ms] [0us,249ms] [0us,249ms]"},
	{"envoy-outlier-ejection", -1, 0, 0, "30s 60s 90s 120s 150s 180s 210s 240s", exact},

	{"grpc-a6-current", 4, 0, 0, "100ms 200ms 400ms 800ms 1s 1s 1s 1s",
		"[80ms,120ms] [160ms,240ms] [320ms,480ms] [640ms,960ms] [800ms,1.2s] [800ms,1.2s] [800ms,1.2s] [800ms,1.2s]"},
	{"grpc-connection-backoff", -1, 0, 0, "1s 1.6s 2.56s 4.096s 6.5536s 10.48576s 16.777216s 26.8435456s",
		"[1s,1s] [1.28s,1.92s] [2.048s,3.072s] [3.2768s,4.9152s] [5.24288s,7.86432s] [8.388608s,12.582912s] [13.4217728s,20.1326592s] [21.47483648s,32.21225472s]"},

	{"extra-azure-azcore", 4, 0, 0, "800ms 2.4s 5.6s 12s 24.8s 50.4s 60s 60s",
		"[640ms,1.04s] [1.92s,3.12s] [4.48s,7.28s] [9.6s,15.6s] [19.84s,32.24s] [40.32s,60s] [60s,60s] [60s,60s]"},
	{"extra-go-retryablehttp", 5, 0, 0, "1s 2s 4s 8s 16s 30s 30s 30s", exact},
	{"extra-k8s-default-backoff", 4, 0, 0, "10ms 50ms 250ms 1.25s 6.25s 6.25s 6.25s 6.25s",
		"[10ms,11ms] [50ms,55ms] [250ms,275ms] [1.25s,1.375s] [6.25s,6.875s] [6.25s,6.875s] [6.25s,6.875s] [6.25s,6.875s]"},
	{"extra-etcd-interceptor", 100, 0, 0, "25ms 25ms 25ms 25ms 25ms 25ms 25ms 25ms",
		"[22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms]"},
	{"extra-urllib3-0.1", 11, 0, 0, "0us 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s", exact},
	{"extra-stripe-go", 3, 0, 0, "500ms 1s 2.5s 5s 5s 5s 5s 5s",
		"[500ms,500ms] [750ms,1s] [1.875s,2.5s] [3.75s,5s] [3.75s,5s] [3.75s,5s] [3.75s,5s] [3.75s,5s]"},
}

// The waits of later retries, and of other parameters than those of the rows.
func TestSingleWaitsAreThoseOfTheSystem(t *testing.T) {
	const us, ms, minute = time.Microsecond, time.Millisecond, time.Minute
	linear, tableExponential := byName(t, "table-linear-1s"), byName(t, "table-exponential-1s")
	simulator, envoyDocs := byName(t, "aws-simulator-5-2000"), byName(t, "envoy-retry-docs")
	for _, c := range []struct {
		name     string
		policy   backoff.Policy
		attempts int
		draw     float64
		waits    string // of single retries
	}{
		{"the table has no cap", linear, 0, 0, "1000:1000s"},
		{"the table has no cap", tableExponential, 0, 0, "21:1048576s"},
		{"the cap", byName(t, "canonical-capped-100ms-30s"), 0, 0, "6:3.2s 20:30s 63:30s 1000:30s"},
		{"the cap", byName(t, "canonical-capped-factor1.5"), 0, 0, "20:30s 63:30s 64:30s 1000:30s"},
		{"the simulator's cap", simulator, -1, 0, "8:1.28s 9:2s 1000:2s"},
		{"no jitter at the cap", presets.AWSGoV2Legacy(), 3, 0, "4:0s 5:20s 6:20s 63:20s 64:20s 1000:20s"},
		{"jitter below the cap", presets.AWSGoV2Legacy(), 3, 0.5, "4:8s 5:20s 1000:20s"},
		{"the spread is kept at the cap", presets.AWS2026(), 3, 0.25, "30:5s"},
		{"the maximum", presets.EnvoyOutlierEjection(0), -1, 0, "10:5m 11:5m 1000:5m"},
		{"a base beyond the maximum", presets.EnvoyOutlierEjection(10 * minute), -1, 0, "1:10m 9:10m"},
		{"the documentation", envoyDocs, 2, top, "1:24ms 2:74ms 3:174ms 4:249ms 5:249ms"},
		{"the code", presets.EnvoySource(), 2, top, "1:24ms 2:49ms 3:99ms 4:199ms 5:249ms"},
		{"1023 slots", presets.Ethernet(0), 16, top, "10:52.3776ms 11:52.3776ms 63:52.3776ms 1000:52.3776ms"},
		{"100 Mb/s", presets.Ethernet(5120), 16, top, "3:35.84us 12:5.23776ms"},
		{"DSSS", presets.CSMACA(20*us, 31, 0), 0, top,
			"1:620us 2:1.26ms 3:2.54ms 4:5.1ms 5:10.22ms 6:20.46ms 7:20.46ms 70:20.46ms"},
		{"1 s exactly, at first", presets.GRPCConnection(), -1, 0.3, "1:1s 2:1.472s"},
		{"120 s and a fifth less", presets.GRPCConnection(), -1, 0, "12:96s 64:96s 1000:96s"},
		{"120 s and a fifth more", presets.GRPCConnection(), -1, top, "12:144s 64:144s 1000:144s"},
		{"windows end at the maximum", presets.GCSCpp(0, 0, 0, 0), -1, 0, "9:150s 10:150s 64:150s 1000:150s"},
		{"windows end at the maximum", presets.GCSCpp(0, 0, 0, 0), -1, top, "9:299.999s 1000:299.999s"},
		{"no window starts before the first", presets.GCSCpp(0, 1500*ms, 3, 0), -1, 0, "1:1s 9:1s"},
		{"whole milliseconds", presets.GCSCpp(0, 0, 0, 0), -1, 1.0 / 3, "1:1.333s"},
		{"negative is no limit", presets.GCSNode(-1, 0, -1, -1), -1, 0, "10:1024s"},
		{"the four properties", presets.GCloud(2*time.Second, 3, 5, 20*time.Second), 6, 0.5,
			"1:2.5s 2:6.5s 3:18.5s 4:20s 5:20s"},
		{"the code of the SDK", presets.GCloud(0, 0, 23, 0), 24, 0.5, "1:1.5s 5:16.5s 6:32s 40:32s"},
		{"negative is no limit", presets.GCloud(0, 0, -1, -1), -1, 0, "11:1024s"},
		{"it stays at the maximum", presets.IoTCore(64 * time.Second), 0, 0, "7:64s 46:64s 62:64s 63:64s 64:64s 1000:64s"},
		{"as many steps", presets.KubernetesDefault(), 4, 0, "4:1.25s 5:6.25s 1000:6.25s"},
		{"each is a quorum", presets.Etcd(-2), 100, 0.5, "1:25ms 2:25ms 3:25ms"},
		{"each is a quorum", presets.Etcd(0), 100, 0.5, "1:25ms 2:25ms 3:25ms"},
		{"two of three", presets.Etcd(3), 100, 0.5, "1:0s 2:25ms 3:0s 4:25ms 5:0s 6:25ms"},
		{"three of five", presets.Etcd(5), 100, 0.5, "1:0s 2:0s 3:25ms 4:0s 5:0s 6:25ms"},
		{"at once, and 120 s", byName(t, "extra-urllib3-0.1"), 11, 0, "1:0s 11:102.4s 12:120s 1000:120s"},
	} {
		require.NoError(t, c.policy.Validate(), c.name)
		require.Equal(t, c.attempts, c.policy.MaxAttempts, c.name)
		c.policy.Rand = always(c.draw)
		for pair := range strings.FieldsSeq(c.waits) {
			retry, text, _ := strings.Cut(pair, ":")
			n, err := strconv.Atoi(retry)
			require.NoError(t, err)
			want, err := time.ParseDuration(text)
			require.NoError(t, err)
			require.InDelta(t, want, c.policy.WaitBefore(n), float64(float), "%s: retry %d", c.name, n)
		}
	}
}
