package backoffhttp_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

func respond(t testing.TB, code int, header ...string) *http.Response {
	t.Helper()
	resp, err := answer(code, header...)(newRequest(t, "GET", "http://a.test/", nil))
	require.NoError(t, err)
	return resp
}

func TestRetryAfterInAllItsForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock is 2000-01-01 00:00:00 UTC
		for _, c := range []struct {
			name, value string
			want        time.Duration
			ok          bool
		}{
			{"Retry-After", "120", 2 * time.Minute, true},
			{"Retry-After", "Sat, 01 Jan 2000 00:02:00 GMT", 2 * time.Minute, true},
			{"Retry-After", "soon", 0, false},
			{"x-amz-retry-after", "1500", 1500 * time.Millisecond, true},
			{"x-amz-retry-after", "99999999999999999999", 5 * time.Second * 10 / 11, true},
			{"ratelimit", `"default";r=0;t=30`, 30 * time.Second, true},
			{"X-RateLimit-Reset", "30", 0, false},
		} {
			got, ok := backoffhttp.RetryAfter(respond(t, 503, c.name, c.value))
			require.Equal(t, c.ok, ok, "%s: %q", c.name, c.value)
			require.Equal(t, c.want, got, "%s: %q", c.name, c.value)
		}
	})
}

// With any answer that is retried, and with 413.
func TestRetryAfterCountsWithEveryAnswerThatIsRetried(t *testing.T) {
	for _, code := range []int{408, 413, 425, 429, 500, 502, 503, 504, 509, 520, 599} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(answer(code, "Retry-After", "2"), answer(200))
			require.Equal(t, 200, getRoot(t, over(w)).StatusCode)
			require.GreaterOrEqual(t, w.waits()[0], 2*time.Second, "%d", code)
		})
	}
	for _, code := range []int{301, 400, 404, 501} {
		w := newWire(answer(code, "Retry-After", "2"))
		getRoot(t, over(w))
		require.Equal(t, 1, w.requests(), "%d: Retry-After says when, not whether", code)
	}
}

// What AWS clamps to: its own wait, up to 5 s above it.
func TestTheRetryAfterOfAWSStaysWithin5sOfTheOwnWait(t *testing.T) {
	for _, asked := range []string{"0", "50", "3000", "5000", "60000", "99999999999"} {
		for _, u := range []float64{0, 0.5, 0.999999} {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(answer(503, "X-Amz-Retry-After", asked), answer(200))
				tr := &backoffhttp.Unguarded{Base: w}
				tr.Policy = backoff.Policy{Schedule: backoff.Constant(time.Second), Rand: func() float64 { return u }}
				getRoot(t, tr)
				own := time.Duration(u * float64(time.Second))
				require.GreaterOrEqual(t, w.waits()[0], own)
				require.LessOrEqual(t, w.waits()[0], own+5*time.Second)
			})
		}
	}
}

// A refusal beats any classifier and any idempotency.
func TestADoNotRetryIsObeyed(t *testing.T) {
	for _, header := range [][]string{
		{"X-Should-Retry", "false"},
		{"x-should-retry", "False"},
		{"Stripe-Should-Retry", "false"},
		{"X-Envoy-Overloaded", "true"},
		{"x-envoy-overloaded", "1"},
		{"X-Envoy-Ratelimited", "true"},
		{"grpc-retry-pushback-ms", "-1"},
		{"grpc-retry-pushback-ms", "soon"},
		{"grpc-retry-pushback-ms", ""},
		{"grpc-retry-pushback-ms", "10", "grpc-retry-pushback-ms", "20"},
		{"X-Should-Retry", "true", "X-Envoy-Overloaded", "true"},
		{"X-Should-Retry", "false", "Stripe-Should-Retry", "true"},
	} {
		tr, w := scripted(answer(503, header...))
		tr.Policy.Classify = func(error) backoff.Class { return backoff.ClassRetryable }
		tr.Policy.Idempotency = backoff.Idempotent
		resp := getRoot(t, tr)
		require.Equal(t, 1, w.requests(), "%v", header)
		require.Equal(t, backoff.ReasonOverloaded, gaveUp(t, resp).Reason)
	}
}

// Stripe's SDKs let the header overrule the status, both ways.
func TestADoRetryOverrulesTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(409, "Stripe-Should-Retry", "true"), answer(400, "X-Should-Retry", "true"), answer(429, "X-Should-Retry", "true"), answer(200))
		var classes []backoff.Class
		tr := over(w)
		tr.Policy.Observer = func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				classes = append(classes, e.Class)
			}
		}
		require.Equal(t, 200, getRoot(t, tr).StatusCode)
		require.Equal(t, []backoff.Class{backoff.ClassRetryable, backoff.ClassRetryable, backoff.ClassThrottled}, classes)
	})
	w := newWire(answer(503, "X-Should-Retry", "true"))
	roundTrip(t, over(w), newRequest(t, "POST", "http://a.test/", nil))
	require.Equal(t, 1, w.requests(), "but not that the request is no effect")
}

// GRPC's pushback is exact.
func TestAPushbackIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503, "Grpc-Retry-Pushback-Ms", "1234"), answer(200))
		getRoot(t, over(w))
		require.Equal(t, []time.Duration{1234 * time.Millisecond}, w.waits())
	})
}

func TestASharedRetryAfterMayComeWithASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := holding(answer(200, "Retry-After", "10"), answer(200))
		getRoot(t, tr)
		roundTrip(t, tr, newRequest(t, "GET", "http://b.test/", nil))
		require.Equal(t, []time.Duration{0}, w.waits(), "other hosts do not wait")
		getRoot(t, tr)
		require.GreaterOrEqual(t, w.waits()[1], 10*time.Second)
		require.LessOrEqual(t, w.waits()[1], 11*time.Second)
		getRoot(t, tr)
		require.Zero(t, w.waits()[2], "once")
	})
}

func TestASharedRetryAfterBeyondMaxRetryAfterIsIgnored(t *testing.T) {
	for asked, wait := range map[string]time.Duration{"301": 0, "300": 300 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := holding(answer(200, "Retry-After", asked), answer(200))
			getRoot(t, tr)
			getRoot(t, tr)
			require.GreaterOrEqual(t, w.waits()[0], wait)
			require.LessOrEqual(t, w.waits()[0], wait+wait/10)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		tr, w := holding(answer(200, "Retry-After", "3000"), answer(200, "Retry-After", "1"), answer(200))
		tr.Policy.MaxRetryAfter = -1
		getRoot(t, tr)
		getRoot(t, tr)
		require.GreaterOrEqual(t, w.waits()[0], 3000*time.Second)
	})
}

// A "no" on a permanent response adds nothing to it: a breaker must not take
// declined cards for an overloaded server.
func TestANoOnAPermanentResponseLeavesItPermanent(t *testing.T) {
	all := httptest.NewRecorder()
	backoffhttp.DoNotRetry(all)
	for status, want := range map[int]backoff.Class{
		400: backoff.ClassPermanent, 402: backoff.ClassPermanent, 408: backoff.ClassPermanent, 409: backoff.ClassPermanent,
		413: backoff.ClassPermanent, 425: backoff.ClassPermanent,
		429: backoff.ClassOverloaded, 500: backoff.ClassOverloaded, 502: backoff.ClassOverloaded, 503: backoff.ClassOverloaded, 504: backoff.ClassOverloaded,
	} {
		for _, header := range []http.Header{
			{"Stripe-Should-Retry": {"false"}}, {"X-Envoy-Overloaded": {"true"}}, {"Grpc-Retry-Pushback-Ms": {"-1"}}, all.Header(),
		} {
			err := backoffhttp.Check(&http.Response{StatusCode: status, Header: header})
			require.Equal(t, want, backoff.DefaultClassifier(err), "status %d, %v", status, header)
		}
	}
}

// Under synctest the local clock begins at 2000-01-01 00:00:00.
func TestDatesAreComparedWithTheLocalClockOrWithTheServers(t *testing.T) {
	const (
		ahead  = "Sat, 01 Jan 2000 00:02:00 GMT"
		behind = "Fri, 31 Dec 1999 20:00:00 GMT"
		reset  = "X-Ratelimit-Reset"
	)
	github := []string{"X-Ratelimit-Remaining", "0"}
	for name, c := range map[string]struct {
		header        []string
		local, server time.Duration // the wait that is asked for
	}{
		"the server's clock is ahead":     {[]string{"Date", ahead, "Retry-After", "Sat, 01 Jan 2000 00:02:10 GMT"}, 130 * time.Second, 10 * time.Second},
		"the server's clock is behind":    {[]string{"Date", behind, "Retry-After", "Fri, 31 Dec 1999 20:00:10 GMT"}, 0, 10 * time.Second},
		"the answer comes from a cache":   {[]string{"Date", behind, "Age", "4", "Retry-After", "Fri, 31 Dec 1999 20:00:10 GMT"}, 0, 6 * time.Second},
		"an Age that is none":             {[]string{"Date", behind, "Age", "-4", "Retry-After", "Fri, 31 Dec 1999 20:00:10 GMT"}, 0, 10 * time.Second},
		"an Age of centuries":             {[]string{"Date", behind, "Age", "99999999999", "Retry-After", "Fri, 31 Dec 1999 20:00:10 GMT"}, 0, 10 * time.Second},
		"no Date":                         {[]string{"Retry-After", "Sat, 01 Jan 2000 00:00:10 GMT"}, 10 * time.Second, 10 * time.Second},
		"a Date that is none":             {[]string{"Date", "yesterday", "Retry-After", "Sat, 01 Jan 2000 00:00:10 GMT"}, 10 * time.Second, 10 * time.Second},
		"a Date in another zone":          {[]string{"Date", "Sat, 01 Jan 2000 00:02:00 PST", "Retry-After", "Sat, 01 Jan 2000 00:00:10 GMT"}, 10 * time.Second, 10 * time.Second},
		"a Date after the date":           {[]string{"Date", "Fri, 31 Dec 9999 23:59:59 GMT", "Retry-After", "Sat, 01 Jan 2000 00:00:10 GMT"}, 10 * time.Second, 0},
		"seconds need no clock":           {[]string{"Date", ahead, "Retry-After", "10"}, 10 * time.Second, 10 * time.Second},
		"a limit that ends in Unix time":  {append(github, "Date", ahead, reset, "946684930"), 130 * time.Second, 10 * time.Second},
		"a limit that ends after seconds": {append(github, "Date", ahead, "X-Ratelimit-Reset-After", "10"), 10 * time.Second, 10 * time.Second},
	} {
		for server, want := range map[bool]time.Duration{false: c.local, true: c.server} {
			for _, share := range []*guard.Services{without(), nil} {
				synctest.Test(t, func(t *testing.T) {
					tr, w := holding(answer(429, c.header...), answer(200))
					tr.ServerClock, tr.Services = server, cmp.Or(share, tr.Services)
					tr.RateLimits = append(backoffhttp.GitHubLimits[:1:1], backoffhttp.DiscordLimits...)
					getRoot(t, tr)
					require.GreaterOrEqual(t, w.waits()[0], max(want, 100*time.Millisecond), "%s, %v", name, server)
					require.LessOrEqual(t, w.waits()[0], max(want*11/10, 100*time.Millisecond), "%s, %v", name, server)
				})
			}
		}
	}
}

// A Date that lies asks for no more than a number of seconds can.
func TestADateThatLiesIsBounded(t *testing.T) {
	for _, date := range []string{"Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 1999 23:54:59 GMT"} {
		synctest.Test(t, func(t *testing.T) {
			header := []string{"Date", date, "Retry-After", "Sat, 01 Jan 2000 00:00:00 GMT"}
			tr, _ := holding(answer(503, header...), answer(200))
			tr.ServerClock = true
			began := time.Now()
			resp := getRoot(t, tr)
			require.Equal(t, 503, resp.StatusCode)
			require.Equal(t, backoff.ReasonRetryAfter, gaveUp(t, resp).Reason)
			getRoot(t, tr)
			require.Zero(t, time.Since(began), "nor does it hold up other calls")
		})
	}
}

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
			{backoffhttp.RateLimit{Reset: "X-Reset"}, []string{"X-Reset", "1e300"}, 0, false},
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

// Nonsense is ignored: what is no decimal number, though package strconv reads
// it, and an end that no quota has.
func TestNonsenseInTheHeadersOfAVendorIsIgnored(t *testing.T) {
	limit := func(form backoffhttp.ResetForm) backoffhttp.RateLimit {
		return backoffhttp.RateLimit{Remaining: "X-Left", Reset: "X-Reset", Form: form}
	}
	synctest.Test(t, func(t *testing.T) {
		for _, left := range []string{"", "Inf", "-Inf", "-infinity", "NaN", "0x0", "0x0p0", "0_0", "none", "1", "0, 0", "０"} {
			_, ok := limit(backoffhttp.ResetSeconds).Wait(respond(t, 429, "X-Left", left, "X-Reset", "60"))
			require.False(t, ok, "%q remain", left)
		}
		for _, c := range []struct {
			form  backoffhttp.ResetForm
			value string
		}{
			{backoffhttp.ResetSeconds, "0x3c"}, {backoffhttp.ResetSeconds, "0x1p5"}, {backoffhttp.ResetSeconds, "6_0"}, {backoffhttp.ResetSeconds, "-Inf"},
			{backoffhttp.ResetSeconds, "60s"}, {backoffhttp.ResetSeconds, "31622401"}, {backoffhttp.ResetSeconds, "946684860"},
			{backoffhttp.ResetMilliseconds, "946684860000"}, {backoffhttp.ResetUnix, "946684860000"}, {backoffhttp.ResetUnixMilli, "9223372036854775807"},
			{backoffhttp.ResetRFC3339, "9999-12-31T23:59:59Z"}, {backoffhttp.ResetRFC3339, "2001-01-02T00:00:01Z"},
			{backoffhttp.ResetDuration, "8784h1s"}, {backoffhttp.ResetDuration, "8785:00:00"}, {backoffhttp.ResetDuration, "1.02:03:04"},
			{backoffhttp.ResetDuration, "00:1.5:00"}, {backoffhttp.ResetDuration, "1:2:3:4"}, {backoffhttp.ResetDuration, strings.Repeat(":", 1<<16)},
		} {
			_, ok := limit(c.form).Wait(respond(t, 429, "X-Left", "0", "X-Reset", c.value))
			require.False(t, ok, "form %d: %.30s", c.form, c.value)
		}
		for form, value := range map[backoffhttp.ResetForm]string{
			backoffhttp.ResetSeconds: "31622400", backoffhttp.ResetMilliseconds: "3.16224e+10", backoffhttp.ResetUnix: "978307200",
			backoffhttp.ResetUnixMilli: "978307200000", backoffhttp.ResetRFC3339: "2001-01-01T00:00:00Z", backoffhttp.ResetDuration: "8784:00:00",
		} {
			d, ok := limit(form).Wait(respond(t, 429, "X-Left", "-1", "X-Reset", value))
			require.True(t, ok, "form %d: %s", form, value)
			require.Equal(t, 366*24*time.Hour, d, value)
		}
	})
}

// What is ignored does not end a call, and does not hold up another one.
func TestAMalformedRateLimitFieldChangesNothing(t *testing.T) {
	for _, field := range []string{
		`r=0;t=400`, `(((;r=0;t=31536000`, `"a";r=0;t=1000000000000000`, `"a";r=0;t=999999999999999`, `"a";r=0;t=-1`, `"a";r=0;t=400,`,
		`"a" ;r=0;t=400`, `"a";r=0;t=400, b;r=0.5`,
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := holding(answer(429, "RateLimit", field), answer(200))
			resp := getRoot(t, tr)
			require.Equal(t, 200, resp.StatusCode, field)
			require.LessOrEqual(t, w.waits()[0], 100*time.Millisecond, field)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		tr, _ := holding(answer(429, "RateLimit", `"a";r=0;t=400`), answer(200))
		resp := getRoot(t, tr)
		require.Equal(t, backoff.ReasonRetryAfter, gaveUp(t, resp).Reason, "a quota that is used up for 400 s")
	})
}

// RFC 9110 knows no fraction of a second. SDKs of OpenAI and Anthropic read it.
func TestAFractionOfRetryAfterIsReadOnlyWhereItIsAskedFor(t *testing.T) {
	asked := []backoffhttp.RateLimit{{Reset: "retry-after"}}
	for _, c := range []struct {
		limits []backoffhttp.RateLimit
		header []string
		wait   time.Duration // 0: not obeyed
	}{
		{nil, []string{"Retry-After", "20.001"}, 0},
		{backoffhttp.GitHubLimits, []string{"Retry-After", "20.001"}, 0},
		{asked, []string{"Retry-After", "20.001"}, 20001 * time.Millisecond},
		{backoffhttp.OpenAILimits, []string{"Retry-After", "120.001"}, 120001 * time.Millisecond},
		{backoffhttp.OpenAILimits, []string{"Retry-After", "12.5", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m"}, 12500 * time.Millisecond},
		{backoffhttp.OpenAILimits, []string{"Retry-After", "12", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m"}, 12 * time.Second},
		{backoffhttp.OpenAILimits, []string{"Retry-After", "0.01", "Retry-After-Ms", "20000"}, 20 * time.Second},
		{backoffhttp.AnthropicLimits, []string{"Retry-After", "20.25"}, 20250 * time.Millisecond},
		{asked, []string{"Retry-After", "soon"}, 0},
		{asked, []string{"Retry-After", "20,5"}, 0},
		{asked, []string{"Retry-After", "1e300"}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := scripted(answer(429, c.header...), answer(200))
			tr.RateLimits = c.limits
			require.Equal(t, 200, getRoot(t, tr).StatusCode, "%v", c.header)
			require.GreaterOrEqual(t, w.waits()[0], c.wait, "%v", c.header)
			require.LessOrEqual(t, w.waits()[0], max(c.wait*11/10, 100*time.Millisecond), "%v", c.header)
		})
	}
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
		wait   time.Duration // 0: the response is permanent
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
