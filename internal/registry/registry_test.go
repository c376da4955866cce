package registry_test

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/registry"
)

const idle = time.Minute

// value is what the registries of these tests keep. Each has its own address.
type value struct {
	key    string
	needed bool // by Keep
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// open returns a registry of values that are kept while they are needed.
func open(limit int) *registry.Registry[*value] {
	return &registry.Registry[*value]{
		New:  func(key string) *value { return &value{key: key} },
		Keep: func(v *value) bool { return v.needed },
		Max:  limit,
		Idle: idle,
	}
}

// flood asks for n keys that nobody asked for before.
func flood(r *registry.Registry[*value], from, n int) {
	for i := range n {
		r.Get("flood " + strconv.Itoa(from+i))
	}
}

// held returns what the registry holds, by key.
func held(t *testing.T, r *registry.Registry[*value]) map[string]*value {
	t.Helper()
	all := make(map[string]*value)
	r.Range(func(key string, v *value) bool {
		if all[key] != nil || v.key != key {
			t.Fatalf("Range gave %q twice, or a value of %q for it", key, v.key)
		}
		all[key] = v
		return true
	})
	return all
}

func TestEachKeyHasOneValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(100)
		a, b := r.Get("a"), r.Get("b")
		require.Equal(t, "a", a.key)
		require.NotSame(t, a, b)
		require.Same(t, a, r.Get("a"))
		require.Same(t, b, r.Get("b"))
		require.Equal(t, "", r.Get("").key, "the empty key is one like any other")
	})
}

func TestManyGoroutinesGetTheSameValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const keys, callers = 20, 50
		var made [keys]atomic.Int64
		r := open(2 * keys)
		r.New = func(key string) *value {
			i, _ := strconv.Atoi(key)
			made[i].Add(1)
			return &value{key: key}
		}
		var got [callers][keys]*value
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				for i := range keys {
					key := (i + caller) % keys
					got[caller][key] = r.Get(strconv.Itoa(key))
				}
			})
		}
		group.Wait()
		for key := range keys {
			require.EqualValues(t, 1, made[key].Load(), "New was called more than once for a key")
			for caller := range callers {
				require.Same(t, got[0][key], got[caller][key])
			}
		}
	})
}

func TestGoroutinesMayAskWhileKeysAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(4)
		var group sync.WaitGroup
		for caller := range 20 {
			group.Go(func() {
				for i := range 200 {
					key := strconv.Itoa((i*7 + caller) % 50)
					if v := r.Get(key); v.key != key {
						t.Errorf("asked for %q, got the value of %q", key, v.key)
					}
					if i%50 == 0 {
						time.Sleep(idle / 2)
						r.Range(func(key string, v *value) bool { return key == v.key })
					}
				}
			})
		}
		group.Wait()
		require.LessOrEqual(t, len(held(t, r)), 4)
	})
}

func TestAKeyInUseIsNotForgottenForItsAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(100)
		first := r.Get("a")
		for i := range 20 {
			time.Sleep(idle * 9 / 10)
			require.Same(t, first, r.Get("a"))
			flood(r, i, 1)
		}
	})
}

func TestAnIdleKeyIsForgottenWhenANewOneComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(100)
		first := r.Get("a")
		time.Sleep(idle)
		r.Get("b")
		require.Contains(t, held(t, r), "a", "idle for Idle: it may still come back")
		time.Sleep(idle)
		r.Get("c")
		require.NotContains(t, held(t, r), "a", "idle for twice Idle")
		require.NotSame(t, first, r.Get("a"))
	})
}

func TestAKeyUsedWithinIdleIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(100)
		r.Get("early")
		time.Sleep(idle / 2)
		first := r.Get("a")
		time.Sleep(idle / 2)
		r.Get("b") // a generation ends
		time.Sleep(idle/2 - 1)
		require.Same(t, first, r.Get("a"), "used less than Idle ago")
	})
}

func TestWithoutNewKeysNothingIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(100)
		a, b := r.Get("a"), r.Get("b")
		for range 10 {
			time.Sleep(10 * idle)
			require.Same(t, a, r.Get("a"))
		}
		require.Same(t, b, r.Get("b"))
	})
}

func TestTheNumberOfKeysIsBounded(t *testing.T) {
	for _, limit := range []int{2, 3, 10, 100} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := open(limit)
				for i := range 5 * limit {
					flood(r, i, 1)
					require.LessOrEqual(t, len(held(t, r)), limit)
				}
				require.GreaterOrEqual(t, len(held(t, r)), limit/2, "more were forgotten than had to be")
			})
		})
	}
}

func TestTheNewestKeysStay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		flood(r, 0, 100)
		all := held(t, r)
		for i := 95; i < 100; i++ {
			require.Contains(t, all, "flood "+strconv.Itoa(i))
		}
		require.NotContains(t, all, "flood 0")
	})
}

func TestAKeyInConstantUseOutlivesAFloodOfNewOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		first := r.Get("a")
		for i := range 1000 {
			flood(r, i, 1)
			require.Same(t, first, r.Get("a"))
		}
	})
}

func TestWithoutRoomTheLastKeyStays(t *testing.T) {
	for _, limit := range []int{1, 0, -1} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := open(limit)
				flood(r, 0, 10)
				last := r.Get("a")
				require.Same(t, last, r.Get("a"))
				require.LessOrEqual(t, len(held(t, r)), 2)
			})
		})
	}
}

func TestANeededValueOutlivesAFloodOfNewKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		needed, other := r.Get("needed"), r.Get("other")
		needed.needed = true
		flood(r, 0, 1000)
		require.Same(t, needed, r.Get("needed"))
		require.NotSame(t, other, r.Get("other"))
	})
}

func TestANeededValueOutlivesIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		needed := r.Get("needed")
		needed.needed = true
		for i := range 10 {
			time.Sleep(2 * idle)
			flood(r, i, 1)
		}
		require.Same(t, needed, r.Get("needed"))
	})
}

func TestAValueNoLongerNeededIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		v := r.Get("a")
		v.needed = true
		flood(r, 0, 100)
		v.needed = false
		flood(r, 100, 100)
		require.NotContains(t, held(t, r), "a")
	})
}

func TestTheNumberOfNeededValuesIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 10
		r := open(limit)
		r.New = func(key string) *value { return &value{key: key, needed: true} }
		for i := range 50 * limit {
			flood(r, i, 1)
			require.LessOrEqual(t, len(held(t, r)), 3*limit)
		}
	})
}

func TestNeededValuesDoNotHastenTheEndOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		for i := range 10 {
			r.Get("needed " + strconv.Itoa(i)).needed = true
		}
		flood(r, 0, 20)
		first := r.Get("a")
		flood(r, 20, 4)
		require.Same(t, first, r.Get("a"), "it is one of the last Max/2 keys")
	})
}

func TestWithoutKeepNothingIsNeeded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		r.Keep = nil
		r.Get("a").needed = true
		flood(r, 0, 100)
		require.NotContains(t, held(t, r), "a")
	})
}

func TestRangeGivesEachKeyOnceAndStopsWhenTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		require.Empty(t, held(t, r), "before the first key")
		flood(r, 0, 8) // in two generations
		require.Len(t, held(t, r), 8)
		for stop := 1; stop <= 8; stop++ {
			given := 0
			r.Range(func(string, *value) bool {
				given++
				return given < stop
			})
			require.Equal(t, stop, given)
		}
	})
}

func TestRangeDoesNotCountAsUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(100)
		r.Get("a")
		for i := range 2 {
			time.Sleep(idle)
			held(t, r)
			flood(r, i, 1)
		}
		require.NotContains(t, held(t, r), "a")
	})
}

func TestRangeMayUseTheRegistry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		flood(r, 0, 3)
		r.Range(func(key string, v *value) bool {
			require.Same(t, v, r.Get(key))
			r.Get("new")
			r.Range(func(string, *value) bool { return true })
			return true
		})
	})
}

func TestAPanicOfNewLeavesTheRegistryUsable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := open(10)
		create := r.New
		r.New = func(string) *value { panic("no value") }
		require.PanicsWithValue(t, "no value", func() { r.Get("a") })
		r.New = create
		require.Equal(t, "a", r.Get("a").key)
		require.Len(t, held(t, r), 1)
	})
}

func TestALookupOfAKnownKeyDoesNotAllocate(t *testing.T) {
	r := open(10)
	r.Get("a")
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Get("a") }))
}

func TestLimitsFollowTheRuleOfTheModule(t *testing.T) {
	var r registry.Registry[int]
	r.SetLimits(0, 0)
	require.Equal(t, 1024, r.Max)
	require.Equal(t, 10*time.Minute, r.Idle)
	r.SetLimits(7, time.Second)
	require.Equal(t, 7, r.Max)
	require.Equal(t, time.Second, r.Idle)
	r.SetLimits(-1, -1)
	require.Equal(t, math.MaxInt, r.Max)
	require.Equal(t, time.Duration(math.MaxInt64), r.Idle)
}
