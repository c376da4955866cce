package presets_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

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
			require.InDelta(t, want, c.policy.Delay(n), float64(float), "%s: retry %d", c.name, n)
		}
	}
}
