package backoffhttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// conns returns how many connections of others the Transports know.
func conns(conn net.Conn) int {
	lines.Lock()
	defer lines.Unlock()
	if l := lines.of[conn]; l != nil {
		return l.users
	}
	return 0
}

// However an attempt ends, nothing is kept of its connection.
func TestNoConnectionIsRememberedAfterItsAttempts(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"body":    func(*http.Request) (*http.Response, error) { return response("content"), nil },
		"no body": func(*http.Request) (*http.Response, error) { return response(""), nil },
		"error":   func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
		"late": func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		},
		"an answer, but late": func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return response("content"), nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			u := &Unguarded{Policy: backoff.Policy{AttemptTimeout: time.Second}, Base: roundTripperFunc(func(req *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(req.Context())
				for range 2 { // as of one request after another
					trace.GotConn(httptrace.GotConnInfo{Conn: near})
				}
				require.Equal(t, 1, conns(near))
				return answer(req)
			})}
			req, err := http.NewRequest("GET", "http://a.test/", nil)
			require.NoError(t, err)
			if resp, err := u.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
			require.Zero(t, conns(near), name)
		})
	}
}

func response(content string) *http.Response {
	resp := &http.Response{StatusCode: 200, Body: http.NoBody}
	if content != "" {
		resp.Body = io.NopCloser(strings.NewReader(content))
	}
	return resp
}
