package backoff_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
)

// A nameServer is a DNS server on loopback. It says that no name exists (RCODE 3 of
// RFC 1035, 4.1.1), until it has said so often enough.
type nameServer struct {
	net.PacketConn
	asked, missing atomic.Int64
}

func serveNames(t *testing.T, missing int64) *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{PacketConn: conn}
	s.missing.Store(missing)
	go s.serve()
	return s
}

func (s *nameServer) serve() {
	for query := make([]byte, 512); ; {
		n, from, err := s.ReadFrom(query)
		if err != nil {
			return
		}
		s.WriteTo(s.answer(query[:n]), from)
	}
}

// answer has the question of the query, and the address of a name that exists.
func (s *nameServer) answer(query []byte) []byte {
	end := 12
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	question := query[12 : end+5] // with its type and class
	isA := query[end+2] == 1
	m := append([]byte{query[0], query[1], 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	switch {
	case s.asked.Load() < s.missing.Load():
		m[3] = 3
	case isA:
		m[7] = 1
		m = append(m, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	if isA {
		s.asked.Add(1)
	}
	return m
}

// lookup looks a name up.
func (s *nameServer) lookup(ctx context.Context) error {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.LocalAddr().String())
	}}
	_, err := r.LookupNetIP(ctx, "ip4", "database.test.")
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

// In a compose file, and in Kubernetes, the name of a server comes with the server.
func TestANameThatIsNotThereYetIsWaitedFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waits := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(time.Millisecond)}
	inTime := waits
	inTime.MaxElapsed = time.Minute
	once := waits
	once.Idempotency = backoff.NonIdempotent
	for name, do := range map[string]func(*nameServer) error{
		"to a deadline":                 func(s *nameServer) error { return waits.Do(ctx, s.lookup) },
		"for a time":                    func(s *nameServer) error { return inTime.Do(t.Context(), s.lookup) },
		"though it must not go twice":   func(s *nameServer) error { return once.Do(ctx, s.lookup) },
		"around a policy that does not": func(s *nameServer) error { return waits.Do(ctx, backoff.Policy{}.Wrap(s.lookup)) },
		"in a loop": func(s *nameServer) (err error) {
			r := waits.Start(ctx)
			for ctx := range r.Attempts() {
				if err := s.lookup(ctx); err == nil {
					return nil
				} else {
					r.Fail(err)
				}
			}
			return r.Err()
		},
		"by a Supervisor": func(s *nameServer) error {
			ctx, cancel := context.WithCancel(ctx)
			return backoff.Supervisor{Policy: backoff.Policy{Schedule: backoff.Constant(time.Millisecond)}}.Run(ctx, func(ctx context.Context) error {
				err := s.lookup(ctx)
				if err == nil {
					cancel()
				}
				return err
			})
		},
	} {
		s := serveNames(t, 6)
		err := do(s)
		if name != "by a Supervisor" { // it ends with its context
			require.NoError(t, err, name)
		}
		require.EqualValues(t, 7, s.asked.Load(), name)
	}
}

// Who mistypes a name learns it at once, unless a bound in time says how long to wait.
func TestANameThatDoesNotExistEndsACallThatHasNoEnd(t *testing.T) {
	for name, p := range map[string]backoff.Policy{
		"few attempts":           {MaxElapsed: time.Minute},
		"any number of attempts": {MaxAttempts: -1},
		"by its own word": {MaxAttempts: -1, MaxElapsed: time.Minute,
			Classify: func(error) backoff.Class { return backoff.ClassPermanent }},
	} {
		s := serveNames(t, 1000)
		err := p.Do(t.Context(), s.lookup)
		var missing *net.DNSError
		require.ErrorAs(t, err, &missing, name)
		require.True(t, missing.IsNotFound, name)
		require.EqualValues(t, 1, s.asked.Load(), name)
	}
	s := serveNames(t, 1000)
	p := backoff.Policy{MaxAttempts: -1, MaxElapsed: time.Minute}
	require.Error(t, p.Do(t.Context(), func(ctx context.Context) error { return backoff.Permanent(s.lookup(ctx)) }))
	require.EqualValues(t, 1, s.asked.Load(), "marked")
}

func TestAMistypedNameIsToldWhenTheTimeToWaitIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		err := backoff.Policy{MaxAttempts: -1, MaxElapsed: 30 * time.Second, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}.Do(t.Context(), func(context.Context) error {
			tries++
			return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "databse", IsNotFound: true}}
		})
		require.EqualError(t, err, "backoff: gave up after 31 attempts: out of time (MaxElapsed): dial tcp: lookup databse: no such host")
		require.Equal(t, 31, tries)
		require.Equal(t, 30*time.Second, time.Since(began))
	})
}

// A limiter that sees that it would end in vain has found the deadline out. These are
// its own errors: if it changes its words, this test fails.
func TestALimiterThatHasNoTimeEndsTheCallAsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		limiter := rate.NewLimiter(rate.Every(time.Hour), 1)
		require.True(t, limiter.Allow())
		began, tries := time.Now(), 0
		wait := func(ctx context.Context) error {
			tries++
			if err := limiter.Wait(ctx); err != nil {
				return fmt.Errorf("limiter: %w", err)
			}
			return nil
		}
		budget := new(backoff.RetryBudget)
		breaker := new(backoff.Breaker)
		for range 30 {
			err := breaker.Do(ctx, func(ctx context.Context) error { return backoff.Policy{Budget: budget}.Do(ctx, wait) })
			var gave *backoff.Error
			require.ErrorAs(t, err, &gave)
			require.Equal(t, backoff.ReasonDeadline, gave.Reason)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "rate: Wait(n=1) would exceed context deadline")
		}
		require.Equal(t, 30, tries, "each once")
		require.Zero(t, time.Since(began), "at once")
		require.NoError(t, ctx.Err())
		require.Zero(t, breaker.Stats().Failures, "nothing of the service")

		// The time of an attempt is another one: the next may have it.
		limiter, tries = rate.NewLimiter(rate.Every(2*time.Second), 1), 0
		require.True(t, limiter.Allow())
		p := backoff.Policy{AttemptTimeout: time.Second, Schedule: backoff.Constant(1500 * time.Millisecond), Jitter: backoff.NoJitter, Idempotency: backoff.NonIdempotent}
		require.NoError(t, p.Do(ctx, wait))
		require.Equal(t, 2, tries)
	})
}

func TestWhatIsBeyondTheBurstOfALimiterIsPermanent(t *testing.T) {
	tries := 0
	err := backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error {
		tries++
		return rate.NewLimiter(1, 1).WaitN(ctx, 2)
	})
	require.EqualError(t, err, "rate: Wait(n=2) exceeds limiter's burst 1")
	require.Equal(t, 1, tries)
}
