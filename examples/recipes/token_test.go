package recipes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
)

// The first token has expired, and then the server is unavailable for a request.
// The other server accepts no token.
func Example_token() {
	for _, script := range [][]faulty.Step{
		{faulty.Status(401), faulty.Status(503), faulty.Text("created")},
		{faulty.Status(401)},
	} {
		server := faulty.Start(script...)
		host, logins := server.Addr, 0
		fetch := func(context.Context) (string, time.Time, error) {
			logins++
			return fmt.Sprint("token ", logins), time.Now().Add(time.Hour), nil
		}

		tokens := &tokenSource{
			login: new(guard.Service).With(backoff.Policy{Name: "login", Classify: backoffhttp.Classify, AttemptTimeout: 5 * time.Second}),
			fetch: fetch, // a POST to the login server by a plain http.Client, and backoffhttp.Check
		}
		client := &http.Client{Transport: &authorized{host: host, tokens: tokens, next: &backoffhttp.Transport{
			Policy: backoff.Policy{Name: "orders"},
			Key:    func(r *http.Request) string { return r.URL.Host }, // a new token is not another tenant
		}}}

		resp := must(client.Do(must(http.NewRequest(http.MethodPut, server.URL, strings.NewReader("an order")))))
		resp.Body.Close()
		fmt.Println(server.Requests(), "requests,", logins, "logins:", backoffhttp.Check(resp))
		server.Close()
	}
	// Output:
	// 3 requests, 2 logins: <nil>
	// 2 requests, 2 logins: status 401 Unauthorized
}

// loginServer is down for some attempts, and then gives tokens of an hour.
type loginServer struct{ down, attempts, given int }

func (l *loginServer) fetch(context.Context) (string, time.Time, error) {
	l.attempts++
	time.Sleep(100 * time.Millisecond)
	if l.attempts <= l.down {
		return "", time.Now().Add(time.Hour), &backoffhttp.StatusError{Code: 503}
	}
	l.given++
	return fmt.Sprint(l.given), time.Now().Add(time.Hour), nil
}

func TestAHundredCallersFetchOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &loginServer{down: 3}
		s := &tokenSource{login: new(guard.Service).With(backoff.Policy{Classify: backoffhttp.Classify}), fetch: server.fetch}
		all := func(rejected, want string) {
			t.Helper()
			var callers sync.WaitGroup
			for n := range 100 {
				callers.Go(func() {
					ctx := t.Context()
					if n == 0 { // the first one does not wait for it
						short, cancel := context.WithTimeout(ctx, time.Millisecond)
						defer cancel()
						s.get(short, rejected)
						return
					}
					time.Sleep(time.Microsecond)
					if got, err := s.get(ctx, rejected); got != want || err != nil {
						t.Errorf("token %q, want %q: %v", got, want, err)
					}
				})
			}
			callers.Wait()
		}
		all("", "1")
		all("1", "2")
		time.Sleep(50 * time.Minute)
		all("1", "2")
		time.Sleep(10 * time.Minute) // the token has expired
		all("", "3")
		if server.attempts != 6 || server.given != 3 {
			t.Errorf("%d attempts for %d tokens, want 3 more for 3", server.attempts, server.given)
		}
	})
}

// A token of two seconds is fetched anew after 1.8 s, whoever asks.
func TestAShortTokenIsUsedForNineTenthsOfItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		s := &tokenSource{login: backoff.Policy{}, fetch: func(context.Context) (string, time.Time, error) {
			fetches++
			return fmt.Sprint(fetches), time.Now().Add(2 * time.Second), nil
		}}
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(100 * time.Millisecond) {
			if _, err := s.get(t.Context(), ""); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if fetches != 6 {
			t.Errorf("%d fetches in 10 s, want 6", fetches)
		}
	})
}

// The login server goes down when a tenth of the lifetime of a token is left.
func TestAValidTokenIsUsedWhileTheLoginServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, began := &loginServer{}, time.Now()
		s := &tokenSource{login: new(guard.Service).With(backoff.Policy{Classify: backoffhttp.Classify}), fetch: server.fetch}
		get := func(want string) {
			t.Helper()
			asked := time.Now()
			got, err := s.get(t.Context(), "")
			if wait := time.Since(asked); got != want || err != nil || wait > 0 && asked != began { // the first one waits
				t.Errorf("after %v: token %q, want %q, in %v: %v", time.Since(began), got, want, wait, err)
			}
		}
		get("1")
		time.Sleep(54 * time.Minute)
		server.down = 10_000
		for time.Since(began) < time.Hour {
			get("1")
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Second) // the last fetch ends
		if synctest.Wait(); server.attempts < 5 || server.given != 1 {
			t.Errorf("%d attempts for %d tokens", server.attempts, server.given)
		}
	})
}

// A caller with an hour gets the error of a login that hangs.
func TestAFetchTakesHalfAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokenSource{login: backoff.Policy{}, fetch: func(ctx context.Context) (string, time.Time, error) {
			<-ctx.Done()
			return "", time.Time{}, ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if _, err := s.get(ctx, ""); err == nil || time.Since(began) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Second) // the source forgets the error
	})
}

func TestALoginThatFailedIsTriedAgainASecondLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &loginServer{down: 1}
		s := &tokenSource{login: backoff.Policy{MaxAttempts: 1}, fetch: server.fetch}
		var status *backoffhttp.StatusError
		if _, err := s.get(t.Context(), "0"); !errors.As(err, &status) || !strings.HasPrefix(err.Error(), "login: ") {
			t.Errorf("%v, want that of the login", err)
		}
		if _, err := s.get(t.Context(), "0"); err == nil || server.attempts != 1 {
			t.Errorf("%d attempts, %v: a login that refuses is asked once a second", server.attempts, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, err := s.get(t.Context(), "0"); got != "1" {
			t.Errorf("%q: %v", got, err)
		}
	})
}
