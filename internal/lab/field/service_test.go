package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ask sends an attempt to a service, and returns the status and how long it
// took. A client that leaves gets 200 and no text.
func ask(v *service, patience time.Duration) (status int, text string, took time.Duration) {
	ctx, leave := context.WithTimeout(context.Background(), patience)
	defer leave()
	w, began := httptest.NewRecorder(), time.Now()
	v.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, address, nil))
	return w.Code, w.Body.String(), time.Since(began)
}

func TestTheServiceDoesTheWorkOfClientsThatHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usual(80)
		s.Slots = 1
		v := newService(s, time.Now())
		defer close(v.queue)
		var all sync.WaitGroup
		all.Go(func() { ask(v, time.Second) })
		synctest.Wait()
		all.Go(func() {
			_, text, took := ask(v, time.Millisecond)
			require.Empty(t, text)
			require.Equal(t, time.Millisecond, took)
		})
		synctest.Wait()
		_, text, took := ask(v, time.Second)
		require.Equal(t, "ok", text)
		require.Equal(t, 3*s.Service, took)
		all.Wait()
		require.EqualValues(t, 1, v.Abandoned.Load())
		require.EqualValues(t, 3, v.Done.Load())
	})
}

func TestTheServiceRefusesWhatItsQueueHasNoPlaceFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usual(80)
		s.Slots, s.Queue = 1, 1
		v := newService(s, time.Now())
		defer close(v.queue)
		for range 2 {
			go ask(v, time.Second)
			synctest.Wait()
		}
		status, _, took := ask(v, time.Second)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Zero(t, took)
		require.EqualValues(t, 1, v.Refused.Load())
		time.Sleep(time.Second)
	})
}

func TestASlotIsSlowWhatBeginsInTheDip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usual(80)
		v := newService(s, time.Now())
		defer close(v.queue)
		for _, at := range []struct{ since, want time.Duration }{
			{0, 20 * time.Millisecond},
			{s.From - 1, 20 * time.Millisecond},
			{s.From, 66_666_666},
			{s.From + s.For - 1, 66_666_666},
			{s.From + s.For, 20 * time.Millisecond},
		} {
			time.Sleep(at.since - time.Since(v.begin))
			go func() {
				_, _, took := ask(v, time.Second)
				require.Equal(t, at.want, took, at.since)
			}()
			synctest.Wait() // the attempt is in a slot
		}
		time.Sleep(time.Second)
	})
}

// late is how late the machine may wake a slot, and the capacity stays the same.
func TestASlotThatIsWokenLateCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usual(80)
		v := &service{setup: s, begin: time.Now(), queue: make(chan *job, 3)}
		came := time.Now()
		for range 3 {
			v.queue <- &job{came: came, done: make(chan struct{})}
		}
		close(v.queue)
		time.Sleep(50 * time.Millisecond) // nobody works
		v.slot()
		require.Equal(t, 3*s.Service, time.Since(came))
	})
}
