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
	"github.com/gobackoff/backoff/control/wake"
)

// A refresher fetches a value every few seconds, and when now is called.
type refresher struct {
	fetch func(context.Context) error // makes one request, and stores the value
	every time.Duration
	kick  chan struct{} // make(chan struct{}, 1)
	waits wake.Signal   // of the waits after failures
}

func (r *refresher) run(ctx context.Context) error {
	policy := backoff.Policy{Name: "config", Schedule: backoff.Exponential{Max: time.Minute}} // after failures
	loop := backoff.Supervisor{Policy: policy, ResetAfter: r.every / 2}                       // more than a fetch takes
	return loop.Run(r.waits.Context(ctx), func(ctx context.Context) error {
		for {
			select {
			case <-r.kick: // an older call of now: this fetch is its own
			default:
			}
			if err := r.fetch(ctx); err != nil {
				return err // also a 404; only backoff.Permanent(err) ends the loop
			}
			select {
			case <-time.After(r.every):
			case <-r.kick:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// now ends the wait, whichever it is: the value is fetched within a second.
func (r *refresher) now() {
	select {
	case r.kick <- struct{}{}: // ends the wait inside
	default:
	}
	r.waits.Wake() // ends a wait between two runs
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
