package backofftest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func TestAnObserverThatOnlyCountsPasses(t *testing.T) {
	var n atomic.Int64
	Observer(t, func(context.Context, backoff.Event) { n.Add(1) })
	require.Positive(t, n.Load())
}

func TestAnObserversFaultsAreFound(t *testing.T) {
	for want, o := range map[string]backoff.Observer{
		"panicked":           func(_ context.Context, e backoff.Event) { _ = e.Err.Error() },
		"changed the header": nil,
	} {
		if o == nil {
			var once atomic.Bool
			o = func(_ context.Context, e backoff.Event) {
				if e.Header != nil && once.CompareAndSwap(false, true) {
					e.Header["Retry-After"][0] = "gone"
				}
			}
		}
		requireCaught(t, want, func(t testing.TB) { Observer(t, o) })
	}
}
