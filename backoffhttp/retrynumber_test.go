package backoffhttp_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
)

type numbered struct {
	http.RoundTripper
	numbers []int
}

func (n *numbered) RoundTrip(req *http.Request) (*http.Response, error) {
	n.numbers = append(n.numbers, backoffhttp.RetryNumber(req.Context()))
	return n.RoundTripper.RoundTrip(req)
}

func TestTheBaseLearnsTheNumberOfTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &numbered{RoundTripper: newWire(answer(503), answer(503), answer(200), answer(200))}
		transport := &backoffhttp.Unguarded{Base: base}
		resp := getRoot(t, transport)
		require.Equal(t, 2, backoffhttp.RetryNumber(resp.Request.Context()))
		getRoot(t, transport)
		require.Equal(t, []int{0, 1, 2, 0}, base.numbers)
	})
}

// A retry of the outer Transport is one to the inner, too.
func TestTheNumberOfTheRetryGoesOnFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &numbered{RoundTripper: newWire(answer(503), answer(200))}
		inner := &backoffhttp.Unguarded{Base: base}
		getRoot(t, &backoffhttp.Unguarded{Base: step(func(req *http.Request) (*http.Response, error) {
			if backoffhttp.RetryNumber(req.Context()) == 0 {
				return answer(503)(req)
			}
			return inner.RoundTrip(req)
		})})
		require.Equal(t, []int{1, 2}, base.numbers)
	})
}
