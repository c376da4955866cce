package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// steering is a driver that takes note, and does nothing by itself.
type steering struct {
	sent  []func(error)
	armed []time.Duration
	rings []func()
	ends  []error
}

func (s *steering) Send(done func(error)) { s.sent = append(s.sent, done) }

func (s *steering) Arm(d time.Duration, ring func()) {
	s.armed = append(s.armed, d)
	s.rings = append(s.rings, ring)
}

func (s *steering) Over(err error) { s.ends = append(s.ends, err) }

func steered(h *backoff.Hedge) *steering {
	s := new(steering)
	h.Steer(context.Background(), s)
	return s
}

func TestASteeredHedgeGoesWhereItsDriverLetsIt(t *testing.T) {
	h := &backoff.Hedge{Delay: time.Hour, MaxExtraLoad: -1}
	s := steered(h)
	require.Len(t, s.sent, 1)
	require.Equal(t, []time.Duration{time.Hour}, s.armed)
	s.rings[0]()
	require.Len(t, s.sent, 2)
	s.sent[1](nil)
	require.Equal(t, []error{nil}, s.ends)
	s.sent[0](nil)
	s.rings[0]()
	require.Len(t, s.ends, 1, "it is over once")
	require.EqualValues(t, 1, h.Stats().Wins)
	require.EqualValues(t, 1, h.Stats().Calls)
}

func TestASteeredHedgeTriesAgainAtOnceAfterAFailure(t *testing.T) {
	synctest.Test(t, triesAgain)
}

func triesAgain(t *testing.T) {
	boom := errors.New("boom")
	s := steered(&backoff.Hedge{Delay: time.Hour})
	s.sent[0](boom)
	synctest.Wait()
	require.Len(t, s.sent, 2, "and once")
	require.Empty(t, s.ends)
	s.rings[0]()
	require.Len(t, s.sent, 2, "an alarm that was replaced does nothing")
	s.sent[1](boom)
	require.Len(t, s.ends, 1)
	require.ErrorIs(t, s.ends[0], boom)
	require.ErrorIs(t, s.ends[0], backoff.ErrExhausted)
}

func TestASteeredHedgeEndsWithADefinitiveError(t *testing.T) {
	s := steered(&backoff.Hedge{Delay: time.Hour})
	s.sent[0](backoff.Permanent(errBoom))
	require.Len(t, s.sent, 1)
	require.Len(t, s.ends, 1)
	require.ErrorIs(t, s.ends[0], errBoom)
}

func TestASteeredHedgeMayEndWithItsAlarm(t *testing.T) {
	s := steered(&backoff.Hedge{Delay: time.Hour, Budget: refusing(2)})
	s.sent[0](backoff.Pushback(errBoom, time.Minute))
	require.Empty(t, s.ends, "the server asked for a minute")
	s.rings[1]()
	require.Len(t, s.ends, 1)
	require.ErrorIs(t, s.ends[0], backoff.ErrBudget)
}

func TestASteeredHedgeThatIsInvalidSendsNothing(t *testing.T) {
	s := steered(&backoff.Hedge{MaxExtraLoad: 2})
	require.Empty(t, s.sent)
	require.Len(t, s.ends, 1)
	require.ErrorContains(t, s.ends[0], "Hedge.MaxExtraLoad is 2")
}
