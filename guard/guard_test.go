package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

var (
	errBoom = errors.New("boom")
	errDown = errors.New("down")
)

// bubble runs a test under a clock of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// gaveUp returns the error of a policy that gave up, or of a service that did.
func gaveUp(t *testing.T, err error) (gave *backoff.Error) {
	t.Helper()
	require.ErrorAs(t, err, &gave)
	return gave
}

// watch has the events of a policy kept.
func watch(p *backoff.Policy) *[]backoff.Event {
	events := new([]backoff.Event)
	p.Observer = func(_ context.Context, e backoff.Event) { *events = append(*events, e) }
	return events
}

func msec(ms ...int64) []time.Duration {
	all := make([]time.Duration, len(ms))
	for i, n := range ms {
		all[i] = time.Duration(n) * time.Millisecond
	}
	return all
}
