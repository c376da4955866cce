package registry_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/internal/registry"
)

const idle = time.Minute

// value is what the registries of these tests keep. Each has its own address.
type value struct {
	key   string
	late  bool // as New was told
	claim registry.Claim
}

// values is a registry of the tests.
type values = registry.Registry[*value]

// bubble runs a test in virtual time, with a registry of so many keys.
func bubble(t *testing.T, limit int, f func(t *testing.T, r *values)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, open(limit)) })
}

// open returns a registry of values that stay while they have a claim.
func open(limit int) *values {
	return &values{
		New:   func(key string, late bool) *value { return &value{key: key, late: late} },
		Claim: func(v *value) registry.Claim { return v.claim },
		Max:   limit,
		Idle:  idle,
	}
}

// flood asks for n keys that nobody asked for before.
func flood(r *values, from, n int) {
	for i := range n {
		r.Get("flood " + strconv.Itoa(from+i))
	}
}

// held returns what the registry holds, by key.
func held(t *testing.T, r *values) map[string]*value {
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

func TestManyGoroutinesGetTheSameValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, callers = 20, 50
		var made [keys]atomic.Int64
		r := open(2 * keys)
		r.New = func(key string, _ bool) *value {
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

// 600 keys in rotation under 1024 used to make 2,536 values.
func TestWhatIsAskedForIsKeptUpToMax(t *testing.T) {
	for _, keys := range []int{600, 1024} {
		synctest.Test(t, func(t *testing.T) {
			made := 0
			r := open(1024)
			create := r.New
			r.New = func(key string, late bool) *value {
				made++
				require.False(t, late)
				return create(key, late)
			}
			for range 10 {
				flood(r, 0, keys)
				time.Sleep(idle / 3)
			}
			require.Equal(t, keys, made)
			require.Zero(t, r.Evictions())
		})
	}
}

func TestAKeyThatWasUsedOftenOutlivesAnyFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100
		r := open(limit)
		mine := make([]*value, limit/2)
		for range 2 {
			for i := range mine {
				mine[i] = r.Get("mine " + strconv.Itoa(i))
			}
		}
		flood(r, 0, 100*limit) // and nobody asks for mine meanwhile
		for i, v := range mine {
			require.Same(t, v, r.Get("mine "+strconv.Itoa(i)))
		}
		require.EqualValues(t, 100*limit-limit/2, r.Evictions())
	})
}

// A stranger may ask for each of the keys twice.
func TestAKeyInUseOutlivesAFloodThatComesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100
		r := open(limit)
		mine := r.Get("mine")
		for i := range 100 * limit {
			flood(r, i, 1)
			flood(r, i, 1)
			if i%(limit/2) == 0 {
				require.Same(t, mine, r.Get("mine"), "after %d keys", i)
			}
		}
	})
}

func TestAKeyThatIsNoLongerUsedGivesItsPlaceToThoseThatAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64
		r := open(limit)
		for range 20 {
			flood(r, 0, limit)
		}
		for i := range limit {
			for range 3 { // new keys, which are asked for again
				flood(r, limit+i, 1)
			}
		}
		for range 10 {
			flood(r, limit, limit*3/4)
		}
		require.Less(t, len(held(t, r)), limit+1)
		before := r.Evictions()
		flood(r, limit, limit*3/4)
		require.Equal(t, before, r.Evictions(), "the keys in use have settled")
	})
}

func TestAKeyThatComesBackSoonCountsAsAskedForAgain(t *testing.T) {
	for absent, known := range map[int]bool{30: true, 300: false} {
		bubble(t, 100, func(t *testing.T, r *values) {
			flood(r, 0, 100)
			r.Get("a")
			flood(r, 100, 100+absent)
			back := r.Get("a")
			flood(r, 1000, 200)
			require.Equal(t, known, r.Get("a") == back, "after %d other keys", absent)
		})
	}
}

func TestLookupsThatNeverEndDoNotHoldUpANewKey(t *testing.T) {
	bubble(t, 10, func(t *testing.T, r *values) {
		flood(r, 0, 10)
		r.Claim = func(v *value) registry.Claim {
			if v.key != "new" {
				r.Get(v.key) // whenever an entry is looked at
			}
			return registry.None
		}
		require.Equal(t, "new", r.Get("new").key)
		require.Len(t, held(t, r), 10)
	})
}

func TestANewKeyIsLateOnlyWhereAllPlacesAreTaken(t *testing.T) {
	bubble(t, 10, func(t *testing.T, r *values) {
		for i := range 10 {
			require.False(t, r.Get(strconv.Itoa(i)).late)
		}
		require.True(t, r.Get("one more").late)
		time.Sleep(2 * idle)
		require.True(t, r.Get("two more").late, "the idle ones may still come back")
		time.Sleep(2 * idle)
		require.False(t, r.Get("three more").late, "the idle ones are gone")
	})
}

func TestAClaimFromTheBeginningDoesNotCount(t *testing.T) {
	bubble(t, 10, func(t *testing.T, r *values) {
		r.New = func(key string, _ bool) *value { return &value{key: key, claim: registry.Always} }
		first := r.Get("a")
		changed := r.Get("b")
		changed.claim = registry.Always + 1
		flood(r, 0, 100)
		require.NotSame(t, first, r.Get("a"))
		require.Same(t, changed, r.Get("b"))
		require.Len(t, held(t, r), 11)
	})
}

func TestKeysWithoutAPlaceShareOneValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10
		r := open(limit)
		claimed := make([]*value, 2*limit)
		for i := range claimed {
			claimed[i] = r.Get(strconv.Itoa(i))
			claimed[i].claim = registry.Always
		}
		require.Zero(t, r.Evictions())
		rest := r.Get("one more")
		require.Same(t, rest, r.Get("two more"))
		require.Equal(t, &value{key: registry.Rest, late: true}, rest)
		require.EqualValues(t, 2, r.Evictions())
		for i, v := range claimed {
			require.Same(t, v, r.Get(strconv.Itoa(i)))
		}
		require.Len(t, held(t, r), 2*limit+1)
		for _, v := range claimed {
			v.claim = registry.None
		}
		flood(r, 0, 10*limit)
		require.Same(t, r.Get("three more"), r.Get("three more"))
		require.Equal(t, "three more", r.Get("three more").key)
		require.Len(t, held(t, r), limit+1)
	})
}

// A stranger who makes values with a claim drives out neither those of others
// nor keys in use.
func TestClaimsOfAStrangerDriveOutNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 40
		r := open(limit)
		mine := make([]*value, limit/2)
		for range 2 {
			for i := range mine {
				mine[i] = r.Get("mine " + strconv.Itoa(i))
			}
		}
		mine[0].claim = registry.Always
		for i := range 100 * limit {
			r.Get("stranger " + strconv.Itoa(i)).claim = registry.Always
			require.LessOrEqual(t, len(held(t, r)), 2*limit+1)
		}
		for i, v := range mine {
			require.Same(t, v, r.Get("mine "+strconv.Itoa(i)))
		}
	})
}

func TestOfTheKeysThatWereAskedForAgainTheOneAskedForMostOftenGoesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10
		r := open(limit)
		for i := range limit {
			flood(r, i, 1)
			for range 2 {
				flood(r, i, 1)
			}
		}
		most := r.Get("flood 0")
		for range 4 {
			r.Get("flood 0")
		}
		flood(r, limit, limit-1)
		require.Same(t, most, r.Get("flood 0"))
	})
}

func TestATimeWithoutLookupsDoesNotCountAsOne(t *testing.T) {
	bubble(t, 10, func(t *testing.T, r *values) {
		flood(r, 0, 5)
		time.Sleep(idle)
		flood(r, 5, 5) // looks for idle keys
		flood(r, 10, 1)
		all := held(t, r)
		require.NotContains(t, all, "flood 0", "the oldest that was asked for only once")
		require.Contains(t, all, "flood 5")
		require.Len(t, all, 10)
	})
}

func TestRangeGivesEachKeyOnceAndStopsWhenTold(t *testing.T) {
	bubble(t, 10, func(t *testing.T, r *values) {
		require.Empty(t, held(t, r), "before the first key")
		flood(r, 0, 8)
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

func TestRangeMayUseTheRegistry(t *testing.T) {
	bubble(t, 10, func(t *testing.T, r *values) {
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
	bubble(t, 10, func(t *testing.T, r *values) {
		create := r.New
		r.New = func(string, bool) *value { panic("no value") }
		require.PanicsWithValue(t, "no value", func() { r.Get("a") })
		r.New = create
		require.Equal(t, "a", r.Get("a").key)
		require.Len(t, held(t, r), 1)
	})
}

// A model of what a registry promises, asked for keys at random: mine and those
// of a stranger, with and without claims, and now and then much later.
func TestTheRegistryKeepsWhatItPromises(t *testing.T) {
	for seed := range uint64(nightly.Size(50, 5000)) {
		synctest.Test(t, func(t *testing.T) { promises(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func promises(t *testing.T, random *rand.Rand) {
	limit := 1 + random.IntN(20)
	keys := 1 + random.IntN(3*limit)
	claims := random.IntN(3) == 0
	r := open(limit)
	made, forgotten, shared := 0, 0, 0
	create := r.New
	r.New = func(key string, late bool) *value {
		made++
		return create(key, late)
	}
	asked := make(map[string]time.Time)
	before := held(t, r)
	for range 300 {
		key := strconv.Itoa(random.IntN(keys))
		if random.IntN(4) == 0 {
			key = strconv.Itoa(random.IntN(1 + keys/4)) // some are asked for more often
		}
		if random.IntN(20) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(idle / 2))))
		}
		evictions := r.Evictions()
		v := r.Get(key)
		evictions = r.Evictions() - evictions
		after := held(t, r)
		switch {
		case before[key] != nil:
			require.Same(t, before[key], v, "it was known")
			require.Equal(t, before, after)
		case v.key == registry.Rest:
			require.Greater(t, len(before), limit, "there was room")
			shared++
		default:
			require.Equal(t, key, v.key)
			require.Same(t, v, after[key])
		}
		for key, v := range before {
			if after[key] != nil {
				continue
			}
			forgotten++
			require.Less(t, v.claim, registry.Always, "it had a claim")
			if time.Since(asked[key]) < idle {
				require.Equal(t, registry.None, v.claim, "it was in use and had a claim")
				require.GreaterOrEqual(t, len(before), limit, "it was in use, and there was room")
				require.NotZero(t, evictions, "it was not counted")
			}
		}
		require.LessOrEqual(t, len(after), 2*limit+1)
		if !claims {
			require.LessOrEqual(t, len(after), limit)
		}
		asked[key] = time.Now()
		if claims && random.IntN(3) == 0 {
			v.claim = registry.Claim(random.IntN(4))
		}
		before = after
	}
	require.Equal(t, made, len(before)+forgotten)
	require.LessOrEqual(t, r.Evictions(), uint64(forgotten+shared))
}

// TestTenThousandKeysAtOnce looks for races between lookups, new keys, claims
// and Range.
func TestTenThousandKeysAtOnce(t *testing.T) {
	type state struct {
		key   string
		claim atomic.Uint32
	}
	r := &registry.Registry[*state]{
		New:   func(key string, _ bool) *state { return &state{key: key} },
		Claim: func(s *state) registry.Claim { return registry.Claim(s.claim.Load()) },
		Max:   1000,
		Idle:  100 * time.Millisecond,
	}
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for i := range 10_000 {
				key := strconv.Itoa((i*7919 + caller) % 10_000)
				if i%1000 == 0 {
					r.Range(func(key string, s *state) bool { return key == s.key && s.key[0] != '9' })
				}
				s := r.Get(key)
				if s.key != key && s.key != registry.Rest {
					t.Errorf("asked for %q, got the value of %q", key, s.key)
				}
				s.claim.Store(uint32(i % 5 % 3))
			}
		})
	}
	group.Wait()
	kept := 0
	r.Range(func(string, *state) bool { kept++; return true })
	require.LessOrEqual(t, kept, 2*1000+1)
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

func TestFindMakesNothingAndCountsAsUse(t *testing.T) {
	made := 0
	r := registry.Registry[int]{New: func(string, bool) int { made++; return made }, Max: 2, Idle: idle}
	_, ok := r.Find("mine")
	require.False(t, ok)
	require.Zero(t, made)
	r.Get("mine")
	for i := range 100 {
		v, ok := r.Find("mine")
		require.True(t, ok)
		require.Equal(t, 1, v)
		r.Get(strconv.Itoa(i))
	}
}
