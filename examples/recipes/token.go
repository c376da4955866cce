package recipes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// A tokenSource keeps a token until it expires or is rejected. All callers that
// have none wait for the same fetch.
type tokenSource struct {
	login backoff.Doer // the retries of a fetch, apart from those of a call
	fetch func(context.Context) (token string, expires time.Time, err error)

	mu   sync.Mutex
	last fetched  // the newest token
	next *fetched // a fetch that is under way, or has failed within a second
}

type fetched struct {
	token          string
	renew, expires time.Time
	err            error
	done           chan struct{} // closed when the fields above are set
}

// get returns a token that is not the rejected one.
func (s *tokenSource) get(ctx context.Context, rejected string) (string, error) {
	s.mu.Lock()
	now, last := time.Now(), s.last
	valid := now.Before(last.expires) && last.token != rejected
	if s.next == nil && (!valid || now.After(last.renew)) {
		s.next = &fetched{done: make(chan struct{})}
		go s.refresh(context.WithoutCancel(ctx), s.next) // it serves all callers, so no caller's context ends it
	}
	f := s.next
	s.mu.Unlock()
	if valid {
		return last.token, nil
	}
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for a token: %w", ctx.Err())
	}
}

func (s *tokenSource) refresh(ctx context.Context, f *fetched) {
	defer close(f.done)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	f.err = s.login.Do(ctx, func(ctx context.Context) (err error) {
		f.token, f.expires, err = s.fetch(ctx)
		return err
	})
	if f.err != nil {
		f.err = fmt.Errorf("login: %w", f.err)
	}
	f.renew = f.expires.Add(-time.Until(f.expires) / 10) // while the token is still valid
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.err == nil {
		s.next, s.last = nil, *f
		return
	}
	time.AfterFunc(time.Second, func() { // meanwhile callers get this error
		s.mu.Lock()
		defer s.mu.Unlock()
		s.next = nil
	})
}

// authorized sends requests to one host with a token.
type authorized struct {
	host   string // with its port; a redirect to another one gets no token
	tokens *tokenSource
	next   http.RoundTripper
}

func (a *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != a.host {
		return a.next.RoundTrip(req)
	}
	if req.GetBody != nil {
		defer req.Body.Close() // send takes others
	}
	token, err := a.tokens.get(req.Context(), "")
	if err != nil {
		return nil, err
	}
	resp, err := a.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	io.CopyN(io.Discard, resp.Body, 4<<10) // or its connection would be lost
	resp.Body.Close()
	if token, err = a.tokens.get(req.Context(), token); err != nil {
		return nil, err
	}
	return a.send(req, token)
}

func (a *authorized) send(req *http.Request, token string) (resp *http.Response, err error) {
	req = req.Clone(req.Context())
	if req.GetBody != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return a.next.RoundTrip(req)
}
