package recipes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func startRefresher(ctx context.Context, fetch func(context.Context) error) *refresher {
	config := &refresher{fetch: fetch, every: 10 * time.Second, kick: make(chan struct{}, 1)}
	go config.run(ctx) // until ctx ends; config.now() fetches it at once
	return config
}

// refreshing runs a refresher whose fetches return what answer says, by the time since the begin,
// until the end. It returns when they were.
func refreshing(t *testing.T, end time.Duration, answer func(time.Duration) error, kicks ...time.Duration) (at []time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context()) // no deadline: the loop does not begin a wait that would pass one
		time.AfterFunc(end, stop)
		began := time.Now()
		r := &refresher{every: 10 * time.Second, kick: make(chan struct{}, 1), fetch: func(context.Context) error {
			at = append(at, time.Since(began))
			return answer(at[len(at)-1])
		}}
		for _, kick := range kicks {
			time.AfterFunc(kick, r.now)
		}
		err = r.run(ctx)
	})
	return at, err
}

func TestAValueIsRefreshedAtItsTimes(t *testing.T) {
	good := func(time.Duration) error { return nil }
	at, err := refreshing(t, 25*time.Second, good, 12*time.Second)
	if len(at) != 4 || at[1] != 10*time.Second || at[2] != 12*time.Second || at[3] != 22*time.Second || !errors.Is(err, context.Canceled) {
		t.Error(at, err)
	}
}

// The server is down for 5 minutes, and says 404. The waits grow to a minute. When it is back, the
// value is fetched at once, and not twice, though now ends a wait between two runs.
func TestARefreshIsMadeNow(t *testing.T) {
	const back = 5 * time.Minute
	at, _ := refreshing(t, back+15*time.Second, func(at time.Duration) error {
		if at < back {
			return &backoffhttp.StatusError{Code: 404}
		}
		return nil
	}, back)
	n := slices.IndexFunc(at, func(at time.Duration) bool { return at >= back })
	if n < 8 || n != len(at)-2 || at[n] > back+100*time.Millisecond || at[n+1] != at[n]+10*time.Second {
		t.Error(at)
	}
}

// A value that is good for an hour is fetched soon after a failure.
func TestAFailureAfterAGoodTimeIsSoonRepaired(t *testing.T) {
	bad := map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 10: true, 13: true}
	n := -1
	at, _ := refreshing(t, 10*time.Minute, func(time.Duration) error {
		if n++; bad[n] {
			return errors.New("down")
		}
		return nil
	})
	for _, n := range []int{10, 13} { // the two before were good
		if wait := at[n+1] - at[n]; wait > 100*time.Millisecond {
			t.Errorf("a wait of %v after one failure", wait)
		}
	}
}

func TestOnlyAMarkEndsARefresh(t *testing.T) {
	refused := errors.New("wrong token")
	at, err := refreshing(t, time.Minute, func(at time.Duration) error {
		if at < time.Second {
			return &backoffhttp.StatusError{Code: 404}
		}
		return backoff.Permanent(refused)
	})
	gaveUp, ok := errors.AsType[*backoff.Error](err)
	if !errors.Is(err, refused) || !ok || gaveUp.Reason != backoff.ReasonPermanent || len(at) < 2 {
		t.Error(at, err)
	}
}

func TestAValueIsFetchedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		config := startRefresher(t.Context(), func(context.Context) error { n++; return nil })
		time.Sleep(time.Second)
		config.now()
		synctest.Wait()
		if n != 2 {
			t.Errorf("%d fetches", n)
		}
	})
}
