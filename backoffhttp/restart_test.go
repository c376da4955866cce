package backoffhttp_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/internal/nightly"
)

// restarting is a RoundTripper to a service that refuses connections for the
// last part of each 30 s, with the error that net/http returns then.
type restarting struct {
	began    time.Time
	down     time.Duration
	whenDown atomic.Int64 // attempts
}

func (r *restarting) RoundTrip(req *http.Request) (*http.Response, error) {
	if time.Since(r.began)%(30*time.Second) >= 30*time.Second-r.down {
		r.whenDown.Add(1)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	time.Sleep(5 * time.Millisecond)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// lostToRestarts makes calls for two minutes, and returns how long it would take
// to make those that failed.
func lostToRestarts(t *testing.T, perSecond int, service *restarting) time.Duration {
	service.began = time.Now()
	client := &http.Client{Transport: &backoffhttp.Transport{Base: service}}
	var calls sync.WaitGroup
	var failed atomic.Int64
	for range 120 * perSecond {
		calls.Go(func() {
			resp, err := client.Get("http://a.test/")
			if err != nil {
				failed.Add(1)
				return
			}
			resp.Body.Close()
		})
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	calls.Wait()
	return time.Duration(failed.Load()) * time.Second / time.Duration(perSecond)
}

// A refused connection costs the service nothing, so that a client may look for
// the end of a restart early and often.
func TestARestartCostsLittleMoreThanTheTimeThatItTakes(t *testing.T) {
	for _, perSecond := range nightly.Size([]int{10, 200}, []int{10, 1000}) {
		for _, down := range []time.Duration{time.Second, 3 * time.Second, 8 * time.Second} {
			bubble(t, fmt.Sprintf("%d calls per second, %v", perSecond, down), func(t *testing.T) {
				service := &restarting{down: down}
				lost := lostToRestarts(t, perSecond, service)
				require.LessOrEqual(t, lost, 4*down*12/10, "%d attempts while it was down", service.whenDown.Load())
			})
		}
	}
}
