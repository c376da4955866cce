package backoffhttp_test

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

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
