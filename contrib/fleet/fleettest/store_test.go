package fleettest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// recorder is a test that must fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.said = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// complaint returns the failure that check reports.
func complaint(t *testing.T, check func(testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.said
}

func TestMemoryIsAStore(t *testing.T) {
	for _, c := range storeChecks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.check(newProbe(t, new(fleet.Memory))) })
		})
	}
}

// mutant is a store with a fault.
type mutant struct {
	fleet.Memory
	fault string
	seen  int
	ends  time.Time // of the last block that was given back
}

func (m *mutant) is(fault string) bool { return m.fault == fault }

func (m *mutant) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	if m.is("no context") {
		ctx = context.Background()
	}
	if m.is("one key") {
		key = "all"
	}
	return m.Memory.Load(ctx, key)
}

func (m *mutant) Trip(ctx context.Context, key string, t fleet.Trip) (c fleet.Circuit, err error) {
	switch m.fault {
	case "no quorum":
		t.Quorum = 1
	case "votes by process":
		t.Voter = t.By
	case "votes for ever":
		if c, err = m.Memory.Trip(ctx, key, t); !c.Tripped {
			t.Open = time.Hour
			return m.Memory.Trip(ctx, key, t)
		}
		return c, err
	case "no generations":
		t.Seen = max(t.Seen, 1<<20)
	case "holder needs quorum":
		t.By = "nobody"
	case "one key":
		key = "all"
	}
	return m.Memory.Trip(ctx, key, t)
}

func (m *mutant) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	switch m.fault {
	case "lease for all":
		c, err := m.Memory.Lease(ctx, key, by, d)
		c.Mine = c.State() == backoff.BreakerHalfOpen && c.Tripped
		return c, err
	case "lease for ever":
		d *= 1000
	case "lease kept":
		d = max(d, 1)
		if d == 1 {
			d = time.Minute
		}
	case "lease of anything":
		c, err := m.Memory.Lease(ctx, key, by, d)
		c.Mine = true
		return c, err
	}
	return m.Memory.Lease(ctx, key, by, d)
}

func (m *mutant) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	switch m.fault {
	case "never closes":
		return m.Memory.Load(ctx, key)
	case "anybody closes":
		_, _ = m.Memory.Lease(ctx, key, by, time.Second)
	}
	return m.Memory.Reset(ctx, key, by, generation)
}

func (m *mutant) Take(ctx context.Context, key string, c fleet.Claim) (int, error) {
	switch m.fault {
	case "grants all":
		return max(0, c.Tokens), nil
	case "tokens for ever":
		c.Window *= 1000
	case "claims add up":
		m.seen++
		c.Block += strconv.Itoa(m.seen)
	case "fails after a gift":
		if !m.ends.IsZero() && time.Now().After(m.ends) {
			return 0, errors.New("not a number")
		}
	}
	return m.Memory.Take(ctx, key, c)
}

func (m *mutant) Give(ctx context.Context, key, block string, n int) error {
	if m.is("keeps tokens") {
		return ctx.Err()
	}
	m.ends = time.Now().Add(short)
	return m.Memory.Give(ctx, key, block, n)
}

// Each fault is found by the check that is meant for it.
func TestAStoresFaultsAreFound(t *testing.T) {
	for fault, check := range map[string]func(probe){
		"no context":          callsEndWithTheirContext,
		"one key":             keysAreIndependent,
		"no quorum":           aQuorumOpens,
		"votes by process":    aVoterHasOneVote,
		"votes for ever":      aVoteEnds,
		"no generations":      outdatedTripsChangeNothing,
		"holder needs quorum": theHolderOpensAgain,
		"lease for all":       oneLease,
		"lease for ever":      aLeaseEnds,
		"lease kept":          aLeaseCanBeGivenBack,
		"lease of anything":   noLeaseElsewhere,
		"never closes":        theHolderCloses,
		"anybody closes":      nobodyElseCloses,
		"grants all":          tokensAreBounded,
		"tokens for ever":     tokensComeBack,
		"claims add up":       aRepeatedClaimIsOne,
		"keeps tokens":        tokensCanBeGivenBack,
		"fails after a gift":  aBlockGivenBackEnds,
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.Empty(t, complaint(t, func(t testing.TB) { check(newProbe(t, new(fleet.Memory))) }))
				require.NotEmpty(t, complaint(t, func(t testing.TB) { check(newProbe(t, &mutant{fault: fault})) }))
			})
		})
	}
}
