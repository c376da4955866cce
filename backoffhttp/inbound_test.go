package backoffhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/stretchr/testify/require"
)

// inbound returns what a handler inside of Inbound sees of a request.
func inbound(header http.Header) (ctx context.Context, up backoffhttp.Upstream, said bool) {
	h := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
		ctx = r.Context()
		up, said = backoffhttp.UpstreamFrom(ctx)
	}))
	request{header: header}.to(h)
	return ctx, up, said
}

func TestTheAttemptIsReadFromAllWhoCount(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		want   int
	}{
		"own":             {http.Header{"Backoff-Attempt": {"3"}}, 3},
		"Envoy":           {http.Header{"X-Envoy-Attempt-Count": {"2"}}, 2},
		"gRPC":            {http.Header{"Grpc-Previous-Rpc-Attempts": {"1"}}, 2},
		"Stainless":       {http.Header{"X-Stainless-Retry-Count": {"0"}}, 1},
		"AWS":             {http.Header{"Amz-Sdk-Request": {"ttl=20261018T120000Z; attempt=2; max=3"}}, 2},
		"AWS, first":      {http.Header{"Amz-Sdk-Request": {"attempt=1;max=3"}}, 1},
		"the greatest":    {http.Header{"Backoff-Attempt": {"1"}, "X-Envoy-Attempt-Count": {"3"}}, 3},
		"none":            {nil, 0},
		"zero":            {http.Header{"Backoff-Attempt": {"0"}}, 0},
		"negative":        {http.Header{"Backoff-Attempt": {"-3"}}, 0},
		"sign":            {http.Header{"Backoff-Attempt": {"+3"}}, 0},
		"beyond belief":   {http.Header{"Backoff-Attempt": {"1001"}}, 0},
		"overflow":        {http.Header{"Backoff-Attempt": {"9223372036854775808"}}, 0},
		"wide digits":     {http.Header{"Backoff-Attempt": {"٣"}}, 0},
		"empty":           {http.Header{"Backoff-Attempt": {""}}, 0},
		"twice":           {http.Header{"Backoff-Attempt": {"2", "3"}}, 0},
		"list":            {http.Header{"Backoff-Attempt": {"2, 3"}}, 0},
		"AWS, twice":      {http.Header{"Amz-Sdk-Request": {"attempt=2", "attempt=2"}}, 0},
		"AWS, no attempt": {http.Header{"Amz-Sdk-Request": {"max=3"}}, 0},
		"AWS, nonsense":   {http.Header{"Amz-Sdk-Request": {"attempt=x"}}, 0},
		"one is nonsense": {http.Header{"Backoff-Attempt": {"x"}, "X-Envoy-Attempt-Count": {"2"}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			_, up, said := inbound(test.header)
			require.Equal(t, test.want, up.Attempt)
			require.Equal(t, test.want > 0, said)
		})
	}
}

func TestTheTimeLeftBecomesADeadline(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"own":           {http.Header{"Backoff-Deadline-Ms": {"1500"}}, 1500 * time.Millisecond},
		"Envoy":         {http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"250"}}, 250 * time.Millisecond},
		"gRPC":          {http.Header{"Grpc-Timeout": {"2M"}}, 2 * time.Minute},
		"gRPC, ns":      {http.Header{"Grpc-Timeout": {"99999999n"}}, 99999999},
		"the shortest":  {http.Header{"Backoff-Deadline-Ms": {"1500"}, "Grpc-Timeout": {"1S"}}, time.Second},
		"the longest":   {http.Header{"Backoff-Deadline-Ms": {"86400000"}}, 24 * time.Hour},
		"none":          {nil, 0},
		"zero":          {http.Header{"Backoff-Deadline-Ms": {"0"}}, 0},
		"negative":      {http.Header{"Backoff-Deadline-Ms": {"-5"}}, 0},
		"beyond belief": {http.Header{"Backoff-Deadline-Ms": {"86400001"}}, 0},
		"overflow":      {http.Header{"Backoff-Deadline-Ms": {"99999999999999999999"}}, 0},
		"overflow, ms":  {http.Header{"Backoff-Deadline-Ms": {"9999999999"}}, 0},
		"fraction":      {http.Header{"Backoff-Deadline-Ms": {"1.5"}}, 0},
		"twice":         {http.Header{"Backoff-Deadline-Ms": {"1500", "1500"}}, 0},
		"gRPC, unit":    {http.Header{"Grpc-Timeout": {"5x"}}, 0},
		"gRPC, no unit": {http.Header{"Grpc-Timeout": {"5"}}, 0},
		"gRPC, hours":   {http.Header{"Grpc-Timeout": {"99999999H"}}, 0},
		"gRPC, digits":  {http.Header{"Grpc-Timeout": {"123456789S"}}, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, up, said := inbound(test.header)
			deadline, limited := ctx.Deadline()
			require.Equal(t, test.want > 0, limited)
			require.Equal(t, limited, said)
			if limited {
				require.Equal(t, test.want, time.Until(deadline))
				require.Equal(t, deadline, up.Deadline)
			}
		})
	}
}

func TestADeadlineEndsTheHandlersContextAndNotLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			backoffhttp.WriteError(w, r, r.Context().Err())
		}))
		q := request{header: http.Header{"Backoff-Deadline-Ms": {"3000"}}}
		began := time.Now()
		require.Equal(t, http.StatusGatewayTimeout, q.to(h).Code)
		require.Equal(t, 3*time.Second, time.Since(began))
		ctx := within(t, time.Second)
		began = time.Now()
		q.with(ctx, h)
		require.Equal(t, time.Second, time.Since(began), "the server's own is shorter")
	})
}

// A front service reads the deadlines of its clients, and calls a service that
// takes a while.
func TestAStrangersDeadlineOpensNoCircuit(t *testing.T) {
	const takes = 20 * time.Millisecond
	for name, header := range map[string]http.Header{
		"own":   {"Backoff-Deadline-Ms": {"1"}},
		"Envoy": {"X-Envoy-Expected-Rq-Timeout-Ms": {"1"}},
		"gRPC":  {"Grpc-Timeout": {"1000u"}},
		"late":  {"Backoff-Deadline-Ms": {"1019"}}, // of which the handler uses a second
		"part":  {"Grpc-Timeout": {"1900u"}},       // the service must not be told of less, and answer before
	} {
		synctest.Test(t, func(t *testing.T) {
			base, _ := serveInMemory(t, backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(takes):
				case <-r.Context().Done():
					backoffhttp.WriteError(w, r, r.Context().Err())
				}
			})))
			tr := &backoffhttp.Transport{Base: base, Propagate: func(*url.URL) bool { return true }}
			front := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
				if name == "late" {
					time.Sleep(time.Second)
				}
				resp, err := get(&http.Client{Transport: tr}, r, "http://quiet.example")
				if err != nil {
					backoffhttp.WriteError(w, r, err)
					return
				}
				resp.Body.Close()
			}))
			for range 40 {
				w := request{header: header}.to(front)
				require.Equal(t, http.StatusGatewayTimeout, w.Code, name)
				time.Sleep(250 * time.Millisecond)
			}
			for range 20 {
				require.Equal(t, http.StatusOK, request{}.to(front).Code, name)
			}
		})
	}
}

// A service that hangs is found out, also where all calls have deadlines of
// their clients: from a second on, or from the attempt timeout on.
func TestADeadlineThatLeftTimeEnoughOpensTheCircuit(t *testing.T) {
	for deadline, timeout := range map[string]time.Duration{"1000": 0, "999": 300 * time.Millisecond, "5000": 0} {
		synctest.Test(t, func(t *testing.T) {
			base, _ := serveInMemory(t, handle(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			tr := &backoffhttp.Transport{Base: base, Policy: backoff.Policy{AttemptTimeout: timeout}}
			open := 0
			front := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
				_, err := get(&http.Client{Transport: tr}, r, "http://stuck.example")
				if errors.Is(err, backoff.ErrOpen) || strings.Contains(err.Error(), "waited") {
					open++
				}
			}))
			for range 10 {
				request{header: http.Header{"Backoff-Deadline-Ms": {deadline}}}.to(front)
			}
			require.Positive(t, open, "%s ms", deadline)
		})
	}
}

// Whatever is sent, the attempt and the deadline stay within their bounds.
func FuzzInbound(f *testing.F) {
	for _, seed := range []string{"1", "-1", "1000", "99999999999999999999", "5S", "attempt=2; max=3", "attempt=;", ";;;", "\x00"} {
		f.Add(seed)
	}
	names := []string{"Backoff-Attempt", "X-Envoy-Attempt-Count", "Grpc-Previous-Rpc-Attempts", "X-Stainless-Retry-Count",
		"Amz-Sdk-Request", "Backoff-Deadline-Ms", "X-Envoy-Expected-Rq-Timeout-Ms", "Grpc-Timeout"}
	f.Fuzz(func(t *testing.T, value string) {
		header := make(http.Header)
		for _, name := range names {
			header[name] = []string{value}
		}
		_, up, _ := inbound(header)
		if up.Attempt < 0 || up.Attempt > 1000 {
			t.Errorf("attempt %d", up.Attempt)
		}
		if !up.Deadline.IsZero() && (time.Until(up.Deadline) > 24*time.Hour || time.Until(up.Deadline) < -time.Minute) {
			t.Errorf("deadline %v", up.Deadline)
		}
	})
}

// The inner loop makes one attempt if the outer one is retrying.
func TestYieldLeavesRetriesToACallerWhoRetries(t *testing.T) {
	for attempt, want := range map[string]int{"": 4, "1": 4, "2": 1, "3": 1} {
		calls := 0
		policy := backoff.Policy{Schedule: backoff.Constant(0), Idempotency: backoffhttp.YieldToCaller(nil)}
		h := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
			err := policy.Do(r.Context(), func(context.Context) error { calls++; return io.ErrUnexpectedEOF })
			backoffhttp.WriteError(w, r, err)
		}))
		w := request{header: attemptHeader(attempt)}.to(h)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, want, calls, "attempt %q", attempt)
		require.Equal(t, want == 4, w.Header().Get("X-Should-Retry") == "false",
			"a service that yielded does not forbid further retries")
	}
}

func attemptHeader(attempt string) http.Header {
	if attempt == "" {
		return nil
	}
	return http.Header{"Backoff-Attempt": {attempt}}
}

func TestATransportYieldsByItselfUnlessToldOtherwise(t *testing.T) {
	for attempt, yielding := range map[string]int64{"": 4, "1": 4, "2": 1} {
		for name, change := range map[string]func(context.Context) context.Context{
			"yields": func(ctx context.Context) context.Context { return ctx },
			"does not": func(ctx context.Context) context.Context {
				return backoffhttp.WithRetry(ctx, func(p *backoff.Policy) {
					p.MaxAttempts, p.Idempotency = 4, backoff.Idempotent
				})
			},
		} {
			var calls atomic.Int64
			leaf := service(t, counted(&calls, handle(down)))
			client := link{transport: unguarded}.client(t)
			h := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
				_, err := get(client, r.WithContext(change(r.Context())), leaf.URL)
				backoffhttp.WriteError(w, r, err)
			}))
			w := request{header: attemptHeader(attempt)}.to(h)
			want := yielding
			if name == "does not" {
				want = 4
			}
			require.Equal(t, want, calls.Load(), "attempt %q, %s", attempt, name)
			require.Equal(t, want == 4, w.Header().Get("X-Should-Retry") == "false")
		}
	}
}

// The key is what makes the caller's own retry safe.
func TestWhoYieldsStillSendsAKey(t *testing.T) {
	var key atomic.Value
	leaf := service(t, handle(func(w http.ResponseWriter, r *http.Request) { key.Store(r.Header.Get("Idempotency-Key")) }))
	keyed := func() *backoffhttp.Unguarded {
		return &backoffhttp.Unguarded{Policy: backoff.Policy{Idempotency: backoff.Keyed}}
	}
	client := link{transport: keyed}.client(t)
	h := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
		resp, err := client.Do(request{}.on(r.Context(), leaf.URL))
		require.NoError(t, err)
		resp.Body.Close()
	}))
	request{header: attemptHeader("2")}.to(h)
	require.NotEmpty(t, key.Load())
}

func TestYieldStillSendsAgainWhatWasNeverSent(t *testing.T) {
	h := backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
		for class, want := range map[backoff.Class]bool{
			backoff.ClassNotSent: true, backoff.ClassRetryable: false, backoff.ClassThrottled: false, backoff.ClassUnknown: false,
		} {
			require.Equal(t, want, backoffhttp.YieldToCaller(backoff.Idempotent).Repeatable(r.Context(), class))
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	require.Equal(t, http.StatusNoContent, request{header: attemptHeader("2")}.to(h).Code)
}

func TestYieldAroundKeyedWantsAKey(t *testing.T) {
	y := backoffhttp.YieldToCaller(backoff.Keyed)
	require.False(t, y.Repeatable(t.Context(), backoff.ClassRetryable))
	require.True(t, y.Repeatable(t.Context(), backoff.ClassNotSent))
	require.True(t, y.Repeatable(backoff.WithIdempotencyKey(t.Context(), "k"), backoff.ClassRetryable))
}
