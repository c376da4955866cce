package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/idempotency"
	"github.com/stretchr/testify/require"
)

// charging is a handler that counts its charges.
type charging struct {
	charges atomic.Int64
}

func (c *charging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := c.charges.Add(1)
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Location", "/charges/"+strconv.FormatInt(n, 10))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "charged %s as %d", body, n)
}

func once(h http.Handler, o idempotency.Options) http.Handler {
	return idempotency.Middleware(idempotency.SingleTenant, o)(h)
}

// charged returns a handler that counts its charges, each of which happens once.
func charged(o idempotency.Options) (*charging, http.Handler) {
	c := new(charging)
	return c, once(c, o)
}

// A request, for a handler or a server.
type request struct {
	method, path, key, body string
	header                  http.Header
}

func (q request) on(ctx context.Context, url string) *http.Request {
	if q.method == "" {
		q.method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, q.method, url+"/"+q.path, strings.NewReader(q.body))
	if err != nil {
		panic(err)
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	return r
}

// to sends the request to a handler, without a network.
func (q request) to(h http.Handler) *httptest.ResponseRecorder {
	return q.with(context.Background(), h)
}

func (q request) with(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q.on(ctx, "http://service.example"))
	return w
}

func handle(f http.HandlerFunc) http.Handler { return f }

func TestTheSecondRequestGetsTheFirstResponse(t *testing.T) {
	for name, key := range map[string]string{"bare": "8e03978e-40d5", "quoted": `"8e03978e-40d5"`, "escaped": `"a\"b\\c d"`} {
		t.Run(name, func(t *testing.T) {
			c, h := charged(idempotency.Options{})
			first := request{key: key, body: "10"}.to(h)
			require.Equal(t, http.StatusCreated, first.Code)
			require.Equal(t, "charged 10 as 1", first.Body.String())
			require.Empty(t, first.Header().Get("Idempotent-Replayed"))
			for range 3 {
				again := request{key: key, body: "10"}.to(h)
				require.Equal(t, first.Code, again.Code)
				require.Equal(t, first.Body.String(), again.Body.String())
				require.Equal(t, "/charges/1", again.Header().Get("Location"))
				require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
			}
			require.EqualValues(t, 1, c.charges.Load())
		})
	}
}

func TestWithoutAKeyOrWithABadOneItIs400(t *testing.T) {
	for name, header := range map[string]http.Header{
		"missing":      {},
		"empty":        {"Idempotency-Key": {""}},
		"empty string": {"Idempotency-Key": {`""`}},
		"two":          {"Idempotency-Key": {"a", "a"}},
		"list":         {"Idempotency-Key": {"a, b"}},
		"space":        {"Idempotency-Key": {"a b"}},
		"control":      {"Idempotency-Key": {"a\x01b"}},
		"not ASCII":    {"Idempotency-Key": {"schlüssel"}},
		"open string":  {"Idempotency-Key": {`"abc`}},
		"bad escape":   {"Idempotency-Key": {`"a\bc"`}},
		"open escape":  {"Idempotency-Key": {`"a\`}},
		"control str":  {"Idempotency-Key": {"\"a\x7f\""}},
		"parameters":   {"Idempotency-Key": {`"abc";v=1`}},
		"too long":     {"Idempotency-Key": {strings.Repeat("k", 256)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := new(charging)
			w := request{header: header}.to(once(c, idempotency.Options{}))
			require.Equal(t, http.StatusBadRequest, w.Code)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			require.Contains(t, w.Body.String(), `"title":"Idempotency-Key is `)
			require.Zero(t, c.charges.Load())
		})
	}
}

func TestKeysAreAsLongAsMaxKey(t *testing.T) {
	for most, length := range map[int]int{0: 255, 10: 10, -1: 5000} {
		_, h := charged(idempotency.Options{MaxKey: most})
		require.Equal(t, http.StatusCreated, request{key: strings.Repeat("k", length)}.to(h).Code)
		if most >= 0 {
			require.Equal(t, http.StatusBadRequest, request{key: strings.Repeat("k", length+1)}.to(h).Code)
		}
	}
}

func TestAKeyOfAnotherRequestIs422(t *testing.T) {
	for name, other := range map[string]request{
		"body":   {key: "k", body: "20", path: "a?b=c"},
		"path":   {key: "k", body: "10", path: "aa?b=c"},
		"query":  {key: "k", body: "10", path: "a?b=d"},
		"method": {key: "k", body: "10", path: "a?b=c", method: http.MethodPatch},
	} {
		t.Run(name, func(t *testing.T) {
			c, h := charged(idempotency.Options{})
			request{key: "k", body: "10", path: "a?b=c"}.to(h)
			w := other.to(h)
			require.Equal(t, http.StatusUnprocessableEntity, w.Code)
			require.Contains(t, w.Body.String(), "Idempotency-Key is already used")
			require.EqualValues(t, 1, c.charges.Load())
		})
	}
}

func TestFingerprintSaysWhatIsTheSame(t *testing.T) {
	c := new(charging)
	h := once(c, idempotency.Options{Fingerprint: func(r *http.Request, body []byte) []byte {
		return []byte(r.URL.Path)
	}})
	require.Equal(t, http.StatusCreated, request{key: "k", body: "at 12:00"}.to(h).Code)
	require.Equal(t, http.StatusCreated, request{key: "k", body: "at 12:01"}.to(h).Code)
	require.Equal(t, http.StatusUnprocessableEntity, request{key: "k", path: "x"}.to(h).Code)
	require.EqualValues(t, 1, c.charges.Load())
}

func TestInFlightIs409WithRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(charging)
		h := once(handle(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Second)
			c.ServeHTTP(w, r)
		}), idempotency.Options{RetryAfter: 1500 * time.Millisecond})
		go request{key: "k"}.to(h)
		synctest.Wait()
		w := request{key: "k"}.to(h)
		require.Equal(t, http.StatusConflict, w.Code)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Equal(t, "true", w.Header().Get("X-Should-Retry"))
		require.Equal(t, http.StatusUnprocessableEntity, request{key: "k", body: "other"}.to(h).Code)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, http.StatusCreated, request{key: "k"}.to(h).Code)
		require.EqualValues(t, 1, c.charges.Load())
	})
}

func TestA409OfTheHandlersOwnDoesNotLookLikeOneInFlight(t *testing.T) {
	h := once(handle(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusConflict) }), idempotency.Options{})
	for range 2 {
		w := request{key: "k"}.to(h)
		require.Equal(t, http.StatusConflict, w.Code)
		require.Equal(t, "false", w.Header().Get("X-Should-Retry"))
		require.Empty(t, w.Header().Get("Retry-After"))
	}
}

func TestKeysBelongToTheirCaller(t *testing.T) {
	c := new(charging)
	h := idempotency.Middleware(func(r *http.Request) (string, error) {
		return r.Header.Get("Account"), nil
	}, idempotency.Options{})(c)
	as := func(account string) *httptest.ResponseRecorder {
		return request{key: "k", header: http.Header{"Account": {account}}}.to(h)
	}
	require.Equal(t, "charged  as 1", as("one").Body.String())
	require.Equal(t, "charged  as 2", as("two").Body.String())
	require.Equal(t, "charged  as 1", as("one").Body.String())
	require.Equal(t, http.StatusForbidden, as("").Code, "the caller is not known")
	require.EqualValues(t, 2, c.charges.Load())

	request{key: "bc", header: http.Header{"Account": {"a"}}}.to(h)
	request{key: "c", header: http.Header{"Account": {"ab"}}}.to(h)
	require.EqualValues(t, 4, c.charges.Load(), "account and key do not run into each other")
}

type statusError int

func (e statusError) Error() string       { return "refused for secret reasons" }
func (e statusError) HTTPStatusCode() int { return int(e) }

func TestAScopeThatFailsRefusesTheRequest(t *testing.T) {
	for err, status := range map[error]int{
		errors.New("no such account"): 403,
		statusError(401):              401,
		statusError(200):              403,
	} {
		c := new(charging)
		h := idempotency.Middleware(func(*http.Request) (string, error) { return "x", err }, idempotency.Options{})(c)
		w := request{key: "k"}.to(h)
		require.Equal(t, status, w.Code)
		require.NotContains(t, w.Body.String(), "secret")
		require.Zero(t, c.charges.Load())
	}
}

func TestMiddlewareWithoutAScopePanics(t *testing.T) {
	require.Panics(t, func() { idempotency.Middleware(nil, idempotency.Options{}) })
}

func TestOptionalLetsRequestsWithoutAKeyThrough(t *testing.T) {
	c, h := charged(idempotency.Options{Optional: true})
	for range 2 {
		require.Equal(t, http.StatusCreated, request{}.to(h).Code)
	}
	require.EqualValues(t, 2, c.charges.Load())
	require.Equal(t, http.StatusBadRequest, request{key: "a,b"}.to(h).Code)
}

func TestMethodsThatAreIdempotentPass(t *testing.T) {
	c, h := charged(idempotency.Options{})
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		require.Equal(t, http.StatusCreated, request{method: method}.to(h).Code)
	}
	require.EqualValues(t, 5, c.charges.Load())
	h = once(c, idempotency.Options{Methods: []string{"DELETE"}})
	require.Equal(t, http.StatusBadRequest, request{method: "DELETE"}.to(h).Code)
	require.Equal(t, http.StatusCreated, request{method: "POST"}.to(h).Code)
}

func TestTheBodyIsBounded(t *testing.T) {
	c, h := charged(idempotency.Options{MaxBody: 10})
	require.Equal(t, http.StatusCreated, request{key: "a", body: "0123456789"}.to(h).Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, request{key: "b", body: "0123456789a"}.to(h).Code)
	h = once(c, idempotency.Options{MaxBody: -1})
	require.Equal(t, http.StatusCreated, request{key: "c", body: strings.Repeat("x", 2<<20)}.to(h).Code)
	h = once(c, idempotency.Options{})
	require.Equal(t, http.StatusRequestEntityTooLarge, request{key: "d", body: strings.Repeat("x", 1<<20+1)}.to(h).Code)
	require.EqualValues(t, 2, c.charges.Load())
}

type cutBody struct{}

func (cutBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (cutBody) Close() error             { return nil }

func TestABodyThatBreaksOffIs400AndNoBodyIsABodyToo(t *testing.T) {
	for body, want := range map[io.ReadCloser]int{cutBody{}: http.StatusBadRequest, nil: http.StatusCreated} {
		c, h := charged(idempotency.Options{})
		for range 2 {
			r := request{key: "k"}.on(t.Context(), "http://x")
			r.Body = body
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, want, w.Code)
		}
		require.Equal(t, want == http.StatusCreated, c.charges.Load() == 1, "nobody is charged for half a body")
	}
}

func TestWhatIsKeptIsChosenByStatus(t *testing.T) {
	kept := map[int]bool{200: true, 201: true, 204: true, 301: true, 400: true, 402: true, 404: true, 422: true,
		408: false, 425: false, 429: false, 500: false, 501: false, 503: false}
	for status, want := range kept {
		runs := 0
		h := once(handle(func(w http.ResponseWriter, r *http.Request) {
			runs++
			w.WriteHeader(status)
		}), idempotency.Options{})
		require.Equal(t, status, request{key: "k"}.to(h).Code)
		require.Equal(t, status, request{key: "k"}.to(h).Code)
		require.Equal(t, want, runs == 1, "status %d: %d runs", status, runs)
	}
}

// The effect happens once. The next request learns that, but not the response.
func TestAResponseThatIsTooLargeIsSentOnceAndThen410(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter){
		"body": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusCreated)
			for range 100 {
				io.WriteString(w, "0123456789")
			}
		},
		"header": func(w http.ResponseWriter) {
			w.Header().Set("X-Large", strings.Repeat("x", 900))
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, strings.Repeat("0123456789", 100))
		},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			h := once(handle(func(w http.ResponseWriter, r *http.Request) {
				runs++
				w.Header().Set("Location", "/1")
				write(w)
			}), idempotency.Options{MaxResponse: 500})
			first := request{key: "k"}.to(h)
			require.Equal(t, http.StatusCreated, first.Code)
			require.Equal(t, strings.Repeat("0123456789", 100), first.Body.String())
			for range 2 {
				again := request{key: "k"}.to(h)
				require.Equal(t, http.StatusGone, again.Code)
				require.Equal(t, "/1", again.Header().Get("Location"))
				require.Empty(t, again.Header().Get("X-Large"))
			}
			require.Equal(t, 1, runs)
		})
	}
}

func TestAResponseOfTheLimitIsKept(t *testing.T) {
	for _, most := range []int64{1000, -1, 0} {
		runs := 0
		h := once(handle(func(w http.ResponseWriter, r *http.Request) {
			runs++
			io.WriteString(w, strings.Repeat("x", 1000))
		}), idempotency.Options{MaxResponse: most})
		for range 2 {
			w := request{key: "k"}.to(h)
			require.Equal(t, http.StatusOK, w.Code)
			require.Len(t, w.Body.String(), 1000)
		}
		require.Equal(t, 1, runs)
	}
}

// A handler that panics may have taken effect. The panic passes through, the
// key is free, and the next run knows that it is not the first.
func TestAPanicReleasesTheLease(t *testing.T) {
	var runs []int
	h := once(handle(func(w http.ResponseWriter, r *http.Request) {
		c, ok := idempotency.ClaimFrom(r.Context())
		require.True(t, ok)
		if runs = append(runs, c.Run); c.Run == 1 {
			io.WriteString(w, "half")
			panic("broken")
		}
		w.Header().Set("Content-Length", "no number, which is none")
		io.WriteString(w, "whole")
	}), idempotency.Options{})
	require.PanicsWithValue(t, "broken", func() { request{key: "k"}.to(h) })
	require.Equal(t, "whole", request{key: "k"}.to(h).Body.String())
	require.Equal(t, "whole", request{key: "k"}.to(h).Body.String())
	require.Equal(t, []int{1, 2}, runs)
}

func TestAGoexitReleasesTheLease(t *testing.T) {
	first := true
	h := once(handle(func(w http.ResponseWriter, r *http.Request) {
		if first {
			first = false
			runtime.Goexit()
		}
	}), idempotency.Options{})
	var one sync.WaitGroup
	one.Go(func() { request{key: "k"}.to(h) })
	one.Wait()
	require.Equal(t, http.StatusOK, request{key: "k"}.to(h).Code)
}

func TestTheLeaseEndsAndWithItTheHandlersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed []error
		var ended time.Duration
		h := once(handle(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			if c, _ := idempotency.ClaimFrom(r.Context()); c.Run == 1 {
				<-r.Context().Done()
				ended = time.Since(began)
				time.Sleep(time.Hour) // heedless
			}
			io.WriteString(w, "done")
		}), idempotency.Options{Lease: 30 * time.Second, Failed: func(_ context.Context, err error) { failed = append(failed, err) }})
		go request{key: "k"}.to(h)
		time.Sleep(30*time.Second - 1)
		require.Equal(t, http.StatusConflict, request{key: "k"}.to(h).Code)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, 30*time.Second, ended)
		require.Equal(t, "done", request{key: "k"}.to(h).Body.String())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, failed, 1, "at once, as another attempt would not help")
		require.ErrorIs(t, failed[0], idempotency.ErrLeaseLost)
	})
}

func TestALeaseWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &idempotency.MemoryStore{TTL: -1}
		hang := make(chan bool)
		h := once(handle(func(w http.ResponseWriter, r *http.Request) { <-hang }),
			idempotency.Options{Lease: -1, Store: store})
		go request{key: "k"}.to(h)
		time.Sleep(10000 * time.Hour)
		require.Equal(t, http.StatusConflict, request{key: "k"}.to(h).Code)
		close(hang)
	})
}

type ctxKey struct{}

func TestTheHandlerOutlivesItsClientButNotADeadlineAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		h := once(handle(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
			err = r.Context().Err()
			require.Equal(t, "value", r.Context().Value(ctxKey{}))
		}), idempotency.Options{})
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), ctxKey{}, "value"))
		go request{key: "gone"}.with(ctx, h)
		time.Sleep(time.Second)
		cancel()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, request{key: "gone"}.with(context.WithValue(context.Background(), ctxKey{}, "value"), h).Code)

		ctx, cancel = context.WithTimeout(context.WithValue(context.Background(), ctxKey{}, "value"), 5*time.Second)
		defer cancel()
		request{key: "late"}.with(ctx, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// net/http sends 200 for a handler that says nothing. One whose time is over says
// nothing because it gave up: retries must not hear that all is done.
func TestAHandlerThatIsOutOfTimeAndSaysNothingHasNotAnswered(t *testing.T) {
	for _, test := range []struct {
		allowed time.Duration // by the client, beside the lease of a minute
		says    func(w http.ResponseWriter)
		want    int
	}{
		{time.Hour, func(http.ResponseWriter) {}, 503},
		{time.Second, func(w http.ResponseWriter) { w.Header().Set("X-Step", "1") }, 503},
		{time.Second, func(w http.ResponseWriter) { w.WriteHeader(500) }, 500},
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			h := once(handle(func(w http.ResponseWriter, r *http.Request) {
				if runs++; runs == 1 {
					<-r.Context().Done()
					test.says(w)
				}
			}), idempotency.Options{
				Keep: func(int) bool { return true },
				Reject: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					w.WriteHeader(status)
				},
			})
			ctx, cancel := context.WithTimeout(t.Context(), test.allowed)
			defer cancel()
			first := request{key: "k"}.with(ctx, h)
			require.Equal(t, test.want, first.Code)
			require.Equal(t, test.want == 503, first.Header().Get("Retry-After") == "1")
			require.Empty(t, first.Header().Get("X-Step"))
			require.Equal(t, map[int]int{503: 200, 500: 500}[test.want], request{key: "k"}.to(h).Code)
			require.Equal(t, test.want == 503, runs == 2, "what Keep says counts for what a handler said")
		})
	}
}

// faulty is a store that fails as it is told.
type faultyStore struct {
	idempotency.MemoryStore
	begin, finish error
	failures      int // of finish
}

func (s *faultyStore) Begin(ctx context.Context, key, print string, lease time.Duration) (idempotency.Entry, error) {
	if s.begin != nil {
		return idempotency.Entry{}, s.begin
	}
	return s.MemoryStore.Begin(ctx, key, print, lease)
}

func (s *faultyStore) Finish(ctx context.Context, c idempotency.Claim, r idempotency.Record) error {
	if s.failures > 0 {
		s.failures--
		return s.finish
	}
	return s.MemoryStore.Finish(ctx, c, r)
}

func TestWhereTheStoreFailsFirstNothingIsCarriedOut(t *testing.T) {
	c := new(charging)
	store := &faultyStore{begin: errors.New("dial 10.0.0.1: refused")}
	h := once(c, idempotency.Options{Store: store})
	w := request{key: "k"}.to(h)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.NotContains(t, w.Body.String(), "10.0.0.1")
	require.Zero(t, c.charges.Load())
	store.begin = nil
	require.Equal(t, http.StatusCreated, request{key: "k"}.to(h).Code)
}

// hanging is a store that answers no sooner than it must.
type hanging struct {
	idempotency.Store
	begin bool
}

func (s *hanging) Begin(ctx context.Context, key, print string, lease time.Duration) (idempotency.Entry, error) {
	if s.begin {
		<-ctx.Done()
		return idempotency.Entry{}, ctx.Err()
	}
	return s.Store.Begin(ctx, key, print, lease)
}

func (s *hanging) Finish(ctx context.Context, c idempotency.Claim, r idempotency.Record) error {
	return s.hang(ctx)
}

func (s *hanging) Release(ctx context.Context, c idempotency.Claim) error { return s.hang(ctx) }

func (s *hanging) hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAStoreThatHangsHoldsARequestForSecondsOnly(t *testing.T) {
	for name, test := range map[string]struct {
		lease, held time.Duration
	}{
		"as a rule":       {0, 5 * time.Second},
		"a short lease":   {2 * time.Second, 2 * time.Second},
		"a lease for all": {-1, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := new(charging)
				began := time.Now()
				w := request{key: "k"}.to(once(c, idempotency.Options{Store: &hanging{begin: true}, Lease: test.lease}))
				require.Equal(t, test.held, time.Since(began))
				require.Equal(t, http.StatusServiceUnavailable, w.Code)
				require.Equal(t, "1", w.Header().Get("Retry-After"))
				require.Zero(t, c.charges.Load())
			})
		})
	}
	for _, status := range []int{http.StatusOK, http.StatusBadGateway} { // Finish and Release
		synctest.Test(t, func(t *testing.T) {
			var failed error
			began := time.Now()
			w := request{key: "k"}.to(once(handle(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }), idempotency.Options{
				Store:  &hanging{Store: new(idempotency.MemoryStore)},
				Failed: func(_ context.Context, err error) { failed = err },
			}))
			require.Equal(t, 5*time.Second, time.Since(began))
			require.Equal(t, status, w.Code)
			require.ErrorIs(t, failed, context.DeadlineExceeded)
		})
	}
}

// The gap between effect and record: the client has its answer, the key is in
// flight until the lease ends, and then the request is carried out again.
func TestARecordIsTriedFourTimesAndThenReportedAndTheResponseSent(t *testing.T) {
	for failures, charges := range map[int]int64{3: 1, 4: 2} {
		synctest.Test(t, func(t *testing.T) {
			c := new(charging)
			var failed error
			h := once(c, idempotency.Options{
				Store:  &faultyStore{finish: errors.New("disk full"), failures: failures},
				Failed: func(_ context.Context, err error) { failed = err },
			})
			require.Equal(t, http.StatusCreated, request{key: "k"}.to(h).Code)
			if failures == 4 {
				require.ErrorIs(t, failed, backoff.ErrExhausted)
				require.ErrorContains(t, failed, "disk full")
				require.Equal(t, http.StatusConflict, request{key: "k"}.to(h).Code)
				time.Sleep(time.Minute)
			}
			require.Equal(t, http.StatusCreated, request{key: "k"}.to(h).Code)
			require.Equal(t, charges, c.charges.Load())
		})
	}
}

func TestARefusalLinksToTheDocsAndRejectWritesIt(t *testing.T) {
	var got error
	h := once(new(charging), idempotency.Options{
		Docs: "https://api.example.com/docs/keys",
		Reject: func(w http.ResponseWriter, r *http.Request, status int, err error) {
			got = err
			http.Error(w, "no", status)
		},
	})
	w := request{}.to(h)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Equal(t, "no\n", w.Body.String())
	require.ErrorIs(t, got, idempotency.ErrKeyMissing)
	require.Equal(t, `<https://api.example.com/docs/keys>; rel="describedby"; type="text/html"`, w.Header().Get("Link"))

	w = request{}.to(once(new(charging), idempotency.Options{Docs: "https://x/y"}))
	require.JSONEq(t, `{"type":"https://x/y","title":"Idempotency-Key is missing","status":400}`, w.Body.String())
}

func TestAnInvalidStatusPanics(t *testing.T) {
	h := once(handle(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(1) }), idempotency.Options{})
	require.Panics(t, func() { request{key: "k"}.to(h) })
}

// service is a handler behind a real server.
func service(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestAHandlerThatFlushesStreamsAndIsKept(t *testing.T) {
	seen := make(chan bool)
	s := service(t, once(handle(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "one ")
		require.NoError(t, http.NewResponseController(w).Flush())
		<-seen
		io.WriteString(w, "two")
	}), idempotency.Options{}))
	resp, err := s.Client().Do(request{key: "k"}.on(t.Context(), s.URL))
	require.NoError(t, err)
	piece := make([]byte, 4)
	_, err = io.ReadFull(resp.Body, piece)
	require.NoError(t, err)
	seen <- true
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "one two", string(piece)+string(rest))
	resp.Body.Close()
	require.Equal(t, "one two", ask(t, s, request{key: "k"}))
}

// ask sends a request to a server, and returns the body of the response.
func ask(t *testing.T, s *httptest.Server, q request) string {
	t.Helper()
	_, body := exchange(t, s, q.on(t.Context(), s.URL))
	return body
}

// exchange sends a request to a server, and returns the response and its body.
func exchange(t *testing.T, s *httptest.Server, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

func TestHijackingIsRefusedAndDeadlinesPass(t *testing.T) {
	s := service(t, once(handle(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_, _, err := control.Hijack()
		require.ErrorIs(t, err, http.ErrNotSupported)
		_, ok := w.(http.Hijacker)
		require.False(t, ok)
		require.NoError(t, control.SetReadDeadline(time.Now().Add(time.Minute)))
		require.NoError(t, control.SetWriteDeadline(time.Now().Add(time.Minute)))
		io.WriteString(w, "refused")
	}), idempotency.Options{}))
	require.Equal(t, "refused", ask(t, s, request{key: "k"}))
}

// Fields of the connection are not kept either, however they are written.
func TestInformationAndTrailersPassAndAreNotKept(t *testing.T) {
	s := service(t, once(handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header()["connection"] = []string{"X-Hop"}
		w.Header()["keep-alive"] = []string{"timeout=5"}
		w.Header().Add("Trailer", "X-Sum, X-More")
		w.Header().Set("X-Sum", "early")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Other", "43")
	}), idempotency.Options{}))
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
	})
	for i, want := range []http.Header{{"X-Sum": {"42"}, "X-Other": {"43"}, "X-More": nil}, nil} {
		resp, body := exchange(t, s, request{key: "k"}.on(ctx, s.URL))
		require.Equal(t, "body", body)
		require.Equal(t, want, resp.Trailer)
		for _, name := range []string{"Connection", "Keep-Alive", "X-Sum"} {
			require.True(t, i == 0 || len(resp.Header[name]) == 0, name)
		}
		require.Empty(t, resp.Header.Get("Link"))
		require.Equal(t, 1, hints, "request %d", i)
	}
}

func TestDerivedKeysAreStableAndApart(t *testing.T) {
	require.Empty(t, idempotency.DeriveKey(t.Context(), "charge"))
	_, ok := idempotency.ClaimFrom(t.Context())
	require.False(t, ok)
	var charge, mail []string
	h := once(handle(func(w http.ResponseWriter, r *http.Request) {
		charge = append(charge, idempotency.DeriveKey(r.Context(), "charge"))
		mail = append(mail, idempotency.DeriveKey(r.Context(), "mail"))
		w.WriteHeader(503)
	}), idempotency.Options{})
	request{key: "k"}.to(h)
	request{key: "k"}.to(h)
	request{key: "l"}.to(h)
	require.Len(t, charge[0], 32)
	require.Equal(t, charge[0], charge[1], "another run of the same request")
	require.NotEqual(t, charge[0], charge[2])
	require.NotEqual(t, charge[0], mail[0])
}
