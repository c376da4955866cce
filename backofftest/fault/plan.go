package fault

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// A Plan returns the fault of an attempt, of which Number, Began, and over HTTP
// Method, Path and Key are known. A nil Plan is one of [OK].
//
// An [Injector] calls its Plan for one attempt at a time. A Plan must not call
// the Injector.
type Plan func(Attempt) Fault

// Script returns a [Plan] that gives the nth attempt the nth of faults. Attempts
// after the last of faults pass.
func Script(faults ...Fault) Plan {
	return func(a Attempt) Fault {
		if a.Number > len(faults) {
			return OK()
		}
		return faults[a.Number-1]
	}
}

// A Share is a [Fault] and its probability.
type Share struct {
	Fault       Fault
	Probability float64 // of an attempt to have this fault, from 0 to 1
}

// Seed is the name of the environment variable that has the seed of [Randomly].
const Seed = "FAULT_SEED"

// Randomly returns the [Plan] of [Seeded] for a seed that differs from run to
// run. If the test fails, it logs the seed; the environment variable [Seed]
// repeats it. A value there that is no number fails the test at once.
func Randomly(t testing.TB, shares ...Share) Plan {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv(Seed); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", Seed, err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d repeats these faults", Seed, seed)
		}
	})
	return Seeded(seed, shares...)
}

// Seeded returns a [Plan] that draws the fault of each attempt from shares. With
// the probability that remains, 1 minus the sum of theirs, an attempt passes. If
// the sum is above 1, the last shares get less than their probability.
//
// A draw depends on the seed and the number of the attempt alone.
func Seeded(seed uint64, shares ...Share) Plan {
	return func(a Attempt) Fault {
		u := rand.New(rand.NewPCG(seed, uint64(a.Number))).Float64()
		for _, s := range shares {
			if u < s.Probability {
				return s.Fault
			}
			u -= s.Probability
		}
		return OK()
	}
}
