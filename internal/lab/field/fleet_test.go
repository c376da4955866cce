package main

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConnectionsGoToEachAddressInTurn(t *testing.T) {
	var addresses []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	dial, seen := spread(addresses), map[string]int{}
	for range 6 {
		c, err := dial(t.Context(), "tcp", "service.test:80")
		require.NoError(t, err)
		seen[c.RemoteAddr().String()]++
		c.Close()
	}
	for _, a := range addresses {
		require.Equal(t, 2, seen[a])
	}
}

// As in the simulator, one that has been under way for longer than an attempt
// may take is lost, and a younger one does not count.
func TestACallCountsWhenItEnds(t *testing.T) {
	for _, c := range []struct {
		began, takes time.Duration
		err          error
		good, lost   int // the second in which it counts; -1 for none
	}{
		{1500 * time.Millisecond, 400 * time.Millisecond, nil, 1, -1},
		{1500 * time.Millisecond, 600 * time.Millisecond, nil, 2, -1},
		{1500 * time.Millisecond, 600 * time.Millisecond, errors.New("x"), -1, 2},
		{8500 * time.Millisecond, time.Minute, nil, -1, 9},
		{9500 * time.Millisecond, time.Minute, nil, -1, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := usual(80)
			s.Horizon, s.Processes = 10*time.Second, 1
			f := newFleet(order{Setup: s, Client: "none", Begin: time.Now()})
			f.calls = []call{func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(c.takes):
					return c.err
				}
			}}
			ctx, end := context.WithDeadline(t.Context(), f.begin.Add(s.Horizon))
			defer end()
			time.Sleep(c.began)
			f.call(ctx, c.began)
			for i := range f.Good {
				require.Equal(t, i == c.good, f.Good[i].Load() == 1, "good, second %d of %v", i, c)
				require.Equal(t, i == c.lost, f.Lost[i].Load() == 1, "lost, second %d of %v", i, c)
				require.Equal(t, i == seconds(c.began), f.Calls[i].Load() == 1, "calls")
			}
		})
	}
}
