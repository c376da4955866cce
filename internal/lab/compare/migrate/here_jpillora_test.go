package migrate

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	jpillora "github.com/jpillora/backoff"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func hereJpilloraLoop(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 6,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: time.Second},
		Jitter:      backoff.NoJitter, // as there; leave it out
	}
	err := policy.Do(ctx, save)
	return err
}

func hereSupervised(ctx context.Context, dial func(context.Context) (string, error), serve func(context.Context, string) error) error {
	connections := backoff.Supervisor{
		Policy: backoff.Policy{Schedule: backoff.Exponential{Initial: 100 * time.Millisecond, Max: 5 * time.Minute}},
	}
	err := connections.Run(ctx, func(ctx context.Context) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		return serve(ctx, conn)
	})
	return err
}

func TestALoopOfJpilloraHasTheSameWaits(t *testing.T) {
	for _, c := range []call{jpilloraLoop, hereJpilloraLoop} {
		r := recorded(t, c, errDown)
		require.Equal(t, seconds(0.1, 0.2, 0.4, 0.8, 1), r.waits())
		require.ErrorIs(t, r.err, errDown)
		r = recorded(t, c, errDown, errDown, nil)
		require.Len(t, r.at, 3)
		require.NoError(t, r.err)
	}
	old, schedule := jpillora.Backoff{Min: time.Second, Factor: 1.5, Max: time.Minute}, backoff.Exponential{Initial: time.Second, Multiplier: 1.5, Max: time.Minute}
	for n := range 20 {
		require.InDelta(t, old.ForAttempt(float64(n)), schedule.Delay(n+1), 1000)
	}
}

type reconnecting = func(context.Context, func(context.Context) (string, error), func(context.Context, string) error)

func supervised(ctx context.Context, dial func(context.Context) (string, error), serve func(context.Context, string) error) {
	_ = hereSupervised(ctx, dial, serve)
}

// connections dials for an hour. The server accepts the connections that
// accepts says, and closes each after it lasted so long.
func connections(t *testing.T, reconnect reconnecting, lasts time.Duration, accepts func(dial int) bool) (waits []time.Duration) {
	const enough = 200
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		ended, dials := time.Now(), 0
		reconnect(ctx, func(context.Context) (string, error) {
			waits = append(waits, time.Since(ended))
			if dials++; dials == enough {
				cancel()
			}
			ended = time.Now()
			if accepts(dials) {
				return "conn", nil
			}
			return "", errDown
		}, func(context.Context, string) error {
			time.Sleep(lasts)
			ended = time.Now()
			return errDown
		})
	})
	return waits
}

func TestAServerThatHangsUpIsDialledWithoutAWaitInJpilloraOnly(t *testing.T) {
	always := func(int) bool { return true }
	waits := connections(t, jpilloraReconnect, 0, always)
	require.Len(t, waits, 200)
	require.Zero(t, slices.Max(waits))
	require.Less(t, len(connections(t, supervised, 0, always)), 100)
}

func TestAfterAConnectionThatLastedTheWaitsBeginAnew(t *testing.T) {
	tenth := func(dial int) bool { return dial == 10 }
	for name, reconnect := range map[string]reconnecting{"jpillora": jpilloraReconnect, ours: supervised} {
		waits := connections(t, reconnect, 2*time.Minute, tenth)
		require.LessOrEqual(t, waits[10], 100*time.Millisecond, name)
		require.LessOrEqual(t, waits[11], 200*time.Millisecond, name)
	}
}
