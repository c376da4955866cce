package backoffhttp_test

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
)

// Under synctest it is 2000-01-01 00:00:00 UTC, 946684800 since
// 1970.
func TestRateLimitsInTheFormsOfTheirVendors(t *testing.T) {
	const minute = time.Minute
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			limit  backoffhttp.RateLimit
			header []string
			want   time.Duration
			ok     bool
		}{
			{backoffhttp.GitHubLimits[0], []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860"}, minute, true},
			{backoffhttp.GitHubLimits[0], []string{"X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "946684860"}, 0, false},
			{backoffhttp.GitHubLimits[0], []string{"X-RateLimit-Reset", "946684860"}, 0, false},
			{backoffhttp.GitHubLimits[0], []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684700"}, 0, true},
			{backoffhttp.GitHubLimits[0], []string{"X-RateLimit-Remaining", "0"}, 0, false},
			{backoffhttp.XLimits[0], []string{"x-rate-limit-remaining", "0", "x-rate-limit-reset", "946684860"}, minute, true},
			{backoffhttp.DiscordLimits[0], []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "1.25"}, 1250 * time.Millisecond, true},
			{backoffhttp.OpenAILimits[0], []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1m0s"}, minute, true},
			{backoffhttp.OpenAILimits[0], []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "-1m"}, 0, true},
			{backoffhttp.OpenAILimits[0], []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "60"}, 0, false},
			{backoffhttp.AnthropicLimits[1], []string{"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "2000-01-01T00:01:00Z"}, minute, true},
			{backoffhttp.AnthropicLimits[1], []string{"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "tomorrow"}, 0, false},
			{backoffhttp.RateLimit{Reset: "X-Reset", Form: backoffhttp.ResetMilliseconds}, []string{"X-Reset", "60000"}, minute, true},
			{backoffhttp.RateLimit{Reset: "X-Reset", Form: backoffhttp.ResetUnixMilli}, []string{"X-Reset", "946684860000"}, minute, true},
			{backoffhttp.RateLimit{Reset: "X-Reset"}, []string{"X-Reset", "1e300"}, math.MaxInt64, true},
			{backoffhttp.RateLimit{Reset: "X-Reset"}, []string{"X-Reset", "-1e300"}, 0, true},
			{backoffhttp.RateLimit{Reset: "X-Reset"}, []string{"X-Reset", "Inf"}, 0, false},
			{backoffhttp.RateLimit{Reset: "X-Reset"}, []string{"X-Reset", "NaN"}, 0, false},
			{backoffhttp.RateLimit{Reset: "X-Reset", Form: 99}, []string{"X-Reset", "1"}, 0, false},
		} {
			got, ok := c.limit.Wait(respond(t, 429, c.header...))
			require.Equal(t, c.ok, ok, "%v", c.header)
			require.Equal(t, c.want, got, "%v", c.header)
		}
	})
}

// Of numbers that a float64 cannot hold exactly, none is cut to less than the
// vendor asks for.
func TestTheEndOfALimitIsRoundedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			form  backoffhttp.ResetForm
			value string
			least time.Duration
		}{
			{backoffhttp.ResetSeconds, "1.001", 1001 * time.Millisecond},
			{backoffhttp.ResetSeconds, "0.0000000001", 1},
			{backoffhttp.ResetSeconds, "2.0000000001", 2*time.Second + 1},
			{backoffhttp.ResetSeconds, "0", 0},
			{backoffhttp.ResetSeconds, "-0.5", 0},
			{backoffhttp.ResetSeconds, "30", 30 * time.Second},
			{backoffhttp.ResetMilliseconds, "1.0000001", time.Millisecond + 1},
			{backoffhttp.ResetMilliseconds, "1001", 1001 * time.Millisecond},
			{backoffhttp.ResetUnix, "946684800.1", 100 * time.Millisecond},
		} {
			got, ok := backoffhttp.RateLimit{Reset: "X-Reset", Form: c.form}.Wait(respond(t, 429, "X-Reset", c.value))
			require.True(t, ok)
			require.GreaterOrEqual(t, got, c.least, "%v %s", c.form, c.value)
			require.LessOrEqual(t, got, c.least+time.Microsecond, "%v %s", c.form, c.value)
		}
		for n := range 1000 { // milliseconds as seconds
			value := strconv.FormatFloat(float64(n)/1000, 'f', 3, 64)
			got, _ := backoffhttp.RateLimit{Reset: "X-Reset"}.Wait(respond(t, 429, "X-Reset", value))
			require.GreaterOrEqual(t, got, time.Duration(n)*time.Millisecond, value)
		}
	})
}

func TestAnExhaustedLimitIsWaitedForAndMakes403Throttled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860"), answer(200))
		tr.RateLimits = backoffhttp.GitHubLimits
		require.Equal(t, 200, getRoot(t, tr).StatusCode)
		require.GreaterOrEqual(t, w.waits()[0], time.Minute)
	})
}

func TestLimitsAreNotReadUnlessNamed(t *testing.T) {
	w := newWire(answer(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860"))
	getRoot(t, over(w))
	require.Equal(t, 1, w.requests())
}

func TestRetryAfterWinsOverLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(429, "Retry-After", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "60"), answer(200))
		tr.RateLimits = backoffhttp.DiscordLimits
		getRoot(t, tr)
		require.Less(t, w.waits()[0], 2*time.Second)
	})
}

func TestTheLongestExhaustedLimitStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(429, "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "2s",
			"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6s"), answer(200))
		tr := over(w)
		tr.RateLimits = backoffhttp.OpenAILimits
		getRoot(t, tr)
		require.GreaterOrEqual(t, w.waits()[0], 6*time.Second)
		require.Less(t, w.waits()[0], 7*time.Second)
	})
}

func TestAnExhaustedLimitIsSharedBeforeItIsExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "60"), answer(200))
		tr.ShareRetryAfter, tr.RateLimits = true, backoffhttp.DiscordLimits
		getRoot(t, tr)
		getRoot(t, tr)
		require.GreaterOrEqual(t, w.waits()[0], time.Minute)
	})
}

func TestANumberThatIsNoneExhaustsNothing(t *testing.T) {
	resp := &http.Response{Header: http.Header{"X-Ratelimit-Remaining": {"NaN"}, "X-Ratelimit-Reset": {"9999999999"}}}
	_, ok := backoffhttp.GitHubLimits[0].Wait(resp)
	require.False(t, ok)
}
