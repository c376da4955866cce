package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/control/controlhttp"
)

// attemptTimeout is how long the service waits for an upstream.
const attemptTimeout = 500 * time.Millisecond

// newService returns the service. It responds to GET /search with the response of
// the upstream search.internal, and so on.
func newService(upstreams, tokens map[string]string, log *slog.Logger) http.Handler {
	var metrics backoffmetrics.Metrics
	observer := backoff.JoinObservers(backoffslog.New(log, nil), metrics.Observe)

	var panel control.Panel // what the person on call can change
	panel.Observer = func(ctx context.Context, c control.Change) {
		log.WarnContext(ctx, "override", "control", c)
	}

	mux := http.NewServeMux()
	for host := range upstreams {
		name := nameOf(host)
		policy := panel.Policy(backoff.Policy{
			Name:           name,
			AttemptTimeout: attemptTimeout,
			MaxElapsed:     2 * time.Second,
			Observer:       observer,
		})
		client := &http.Client{Transport: &backoffhttp.Transport{Control: policy, Base: connectTo(upstreams)}}
		mux.Handle("GET /"+name, forward(client, "http://"+host+"/"))
	}
	mux.Handle("/debug/backoff/", page.Handler(&metrics, &panel)) // not for users: keep it on a port of its own
	mux.Handle("/debug/control", controlhttp.Handler(&panel, authorize(tokens)))
	return mux
}

// forward responds with the response of an upstream.
func forward(client *http.Client, url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
		if err != nil {
			backoffhttp.WriteError(w, r, err)
			return
		}
		req.Header.Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		resp, err := client.Do(req)
		if err != nil {
			backoffhttp.WriteError(w, r, err)
			return
		}
		defer resp.Body.Close()
		if err := backoffhttp.Check(resp); err != nil {
			backoffhttp.WriteError(w, r, err)
			return
		}
		_, _ = io.Copy(w, resp.Body)
	}
}

// authorize returns who sends a request. Each person has a token.
func authorize(tokens map[string]string) func(*http.Request) (who string, err error) {
	return func(r *http.Request) (string, error) {
		who, token, _ := r.BasicAuth()
		want, known := tokens[who]
		got, wanted := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want)) // of the same length
		if subtle.ConstantTimeCompare(got[:], wanted[:]) != 1 || !known {
			return "", errors.New("wrong name or token")
		}
		return who, nil
	}
}

// nameOf returns the name of the policy for calls to a host.
func nameOf(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// connectTo returns a transport that knows the addresses of the upstreams. It
// stands in for DNS.
func connectTo(addresses map[string]string) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(address)
			at, known := addresses[host]
			if !known {
				return nil, fmt.Errorf("no such host: %s", host)
			}
			return new(net.Dialer).DialContext(ctx, network, at)
		},
	}
}
