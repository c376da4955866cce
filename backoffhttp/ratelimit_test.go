package backoffhttp_test

import (
	"math"
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
	jira := backoffhttp.RateLimit{Reset: "X-Ratelimit-Reset", Form: backoffhttp.ResetRFC3339}
	azure := backoffhttp.RateLimit{Reset: "X-Ms-User-Quota-Resets-After", Form: backoffhttp.ResetDuration}
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
			{backoffhttp.GitHubLimits[0], []string{"X-RateLimit-Remaining", "NaN", "X-RateLimit-Reset", "946684860"}, 0, false},
			{backoffhttp.XLimits[0], []string{"x-rate-limit-remaining", "0", "x-rate-limit-reset", "946684860"}, minute, true},
			{backoffhttp.DiscordLimits[0], []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "1.25"}, 1250 * time.Millisecond, true},
			{backoffhttp.OpenAILimits[0], []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1m0s"}, minute, true},
			{backoffhttp.OpenAILimits[0], []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "-1m"}, 0, true},
			{backoffhttp.OpenAILimits[0], []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "60"}, 0, false},
			{backoffhttp.AnthropicLimits[1], []string{"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "2000-01-01T00:01:00Z"}, minute, true},
			{backoffhttp.AnthropicLimits[1], []string{"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "tomorrow"}, 0, false},
			{backoffhttp.AnthropicLimits[2], []string{"anthropic-ratelimit-input-tokens-remaining", "0", "anthropic-ratelimit-input-tokens-reset", "2000-01-01T00:00:41Z"}, 41 * time.Second, true},
			{backoffhttp.AnthropicLimits[3], []string{"anthropic-ratelimit-output-tokens-remaining", "0", "anthropic-ratelimit-output-tokens-reset", "2000-01-01T00:01:00Z"}, minute, true},
			{jira, []string{"X-RateLimit-Reset", "2000-01-01T00:01Z"}, minute, true},
			{jira, []string{"X-RateLimit-Reset", "2000-01-01T01:01+01:00"}, minute, true},
			{jira, []string{"X-RateLimit-Reset", "2000-01-01"}, 0, false},
			{azure, []string{"X-Ms-User-Quota-Resets-After", "00:01:00"}, minute, true},
			{azure, []string{"X-Ms-User-Quota-Resets-After", "01:00:00.5"}, time.Hour + time.Second/2, true},
			{azure, []string{"X-Ms-User-Quota-Resets-After", "01:00"}, 0, false},
			{azure, []string{"X-Ms-User-Quota-Resets-After", "1h:2:3"}, 0, false},
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

func TestARefusalIsWaitedFor(t *testing.T) {
	linear := []backoffhttp.RateLimit{{Remaining: "X-Remaining", Reset: "X-Reset", Form: backoffhttp.ResetUnixMilli, Status: 400}}
	for name, c := range map[string]struct {
		limits []backoffhttp.RateLimit
		status int
		header []string
		wait   time.Duration // 0: the answer is definitive
	}{
		"an exhausted limit":       {backoffhttp.GitHubLimits, 403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860"}, time.Minute},
		"GitHub's secondary limit": {backoffhttp.GitHubLimits, 403, []string{"X-RateLimit-Remaining", "9", "Retry-After", "60"}, time.Minute},
		"Retry-After, which wins":  {backoffhttp.GitHubLimits, 403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860", "Retry-After", "5"}, 5 * time.Second},
		"the longest limit": {backoffhttp.OpenAILimits, 429, []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "2s",
			"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6s"}, 6 * time.Second},
		"no right to it":              {backoffhttp.GitHubLimits, 403, []string{"X-RateLimit-Remaining", "9"}, 0},
		"Linear's 400":                {linear, 400, []string{"X-Remaining", "0", "X-Reset", "946684830000"}, 30 * time.Second},
		"another 400":                 {linear, 400, []string{"X-Remaining", "7", "X-Reset", "946684830000"}, 0},
		"a 400 of GitHub":             {backoffhttp.GitHubLimits, 400, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860"}, 0},
		"the RateLimit field":         {nil, 429, []string{"RateLimit", `"default";r=0;t=30`}, 30 * time.Second},
		"a request that is too large": {nil, 413, []string{"RateLimit", `"default";r=0;t=30`}, 0},
		"vendors' headers, not named": {nil, 403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860", "Retry-After", "60"}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := scripted(answer(c.status, c.header...), answer(200))
			tr.RateLimits = c.limits
			resp := getRoot(t, tr)
			if c.wait == 0 {
				require.Equal(t, c.status, resp.StatusCode, name)
				return
			}
			require.Equal(t, 200, resp.StatusCode, name)
			require.InDelta(t, c.wait*21/20, w.waits()[0], float64(c.wait/20), name)
		})
	}
}

func TestAnExhaustedLimitIsSharedBeforeItIsExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const field = `"a";r=0;t=60`
		tr, w := holding(answer(200, "RateLimit", field), answer(404, "RateLimit", field), answer(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "60"), answer(200))
		tr.RateLimits = backoffhttp.DiscordLimits
		getRoot(t, tr)
		getRoot(t, tr)
		getRoot(t, tr)
		getRoot(t, tr)
		require.Zero(t, w.waits()[0], "the RateLimit field counts if the call has failed")
		require.GreaterOrEqual(t, w.waits()[1], time.Minute)
		require.GreaterOrEqual(t, w.waits()[2], time.Minute)
	})
}
