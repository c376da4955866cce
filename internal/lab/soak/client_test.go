package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
)

// A kind is how a call is made, which decides how often it may be carried out.
type kind uint8

const (
	idempotent kind = iota // PUT: as often as it takes
	keyed                  // POST under a key: once
	single                 // POST: once, or not, or it is not known
	hedged                 // GET, twice at the same time
	kinds
)

func (k kind) String() string { return [...]string{"put", "keyed", "single", "hedged"}[k] }
func (k kind) path() string   { return "/" + k.String() + "/" }

// kindOf returns the kind of the nth call: 70, 15, 10 and 5 of a hundred.
func kindOf(call int) kind {
	switch n := call % 100; {
	case n < 70:
		return idempotent
	case n < 85:
		return keyed
	case n < 95:
		return single
	}
	return hedged
}

// client makes calls and records their outcomes.
type client struct {
	url    string
	base   *meter
	http   *http.Client // retries
	direct *http.Client // does not
	hedge  *hedge.Hedge
	tally  *tally
}

func newClient(url string, t *tally) *client {
	c := &client{url: url, tally: t, base: &meter{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * workers}}}
	c.direct = &http.Client{Transport: c.base}
	c.hedge = &hedge.Hedge{Name: "soak", Observer: t.observe}
	c.http = &http.Client{Transport: &backoffhttp.Transport{
		Base: c.base,
		Policy: backoff.Policy{
			Name:           "soak",
			Schedule:       backoff.Exponential{Initial: time.Millisecond, Max: 4 * time.Millisecond},
			AttemptTimeout: patience,
			MaxRetryAfter:  time.Minute,
			Observer:       t.observe,
		},
		Idempotency: repeatable,
		ReadAhead:   -1,
		Services:    &guard.Services{New: t.service},
	}}
	return c
}

// patience is the time limit of an attempt. It is hundreds of times what an
// attempt takes, for a busy machine or the race detector.
const patience = 500 * time.Millisecond

func repeatable(req *http.Request) backoff.Idempotency {
	if strings.HasPrefix(req.URL.Path, keyed.path()) {
		return backoff.Keyed
	}
	return backoffhttp.Idempotency(req)
}

// run makes the calls from first up to but not including beyond, and calls
// beside for each of them.
func (c *client) run(first, beyond int, beside func(call int)) {
	var all sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(first))
	for range workers {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < beyond; n = int(next.Add(1)) - 1 {
				c.tally.ended(n, c.make(n))
				beside(n)
			}
		})
	}
	all.Wait()
}

// make makes a call.
func (c *client) make(call int) error {
	if kindOf(call) == hedged {
		return c.get(call)
	}
	method := http.MethodPost
	if kindOf(call) == idempotent {
		method = http.MethodPut
	}
	req, err := http.NewRequest(method, c.address(call), strings.NewReader(strconv.Itoa(call)))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	return check(resp, call)
}

// get makes a hedged call.
func (c *client) get(call int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	_, err := hedge.Value(ctx, c.hedge, func(ctx context.Context) (struct{}, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(call), nil)
		if err != nil {
			return struct{}{}, err
		}
		resp, err := c.direct.Do(req)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, check(resp, call)
	}, nil)
	return err
}

func (c *client) address(call int) string { return c.url + kindOf(call).path() + strconv.Itoa(call) }

// check reads and closes an answer, and returns what is wrong with it.
func check(resp *http.Response, call int) error {
	defer resp.Body.Close()
	if err := backoffhttp.Check(resp); err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && string(text) != receipt(call) {
		err = backoff.Permanent(fmt.Errorf("call %d got %q", call, text))
	}
	return err
}

func (c *client) close() { c.base.CloseIdleConnections() }

// refused reports whether a breaker refused the call, and how long to wait.
func refused(err error) (time.Duration, bool) {
	open, ok := errors.AsType[*backoff.OpenError](err)
	if !ok {
		return 0, false
	}
	return open.RetryAfter(), true
}
