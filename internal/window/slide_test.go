package window

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const span = 10 * time.Second

func TestSlideSpreadsSuccessesOverTheTimeSinceTheLastLook(t *testing.T) {
	var s Slide
	require.EqualValues(t, 1000, s.Advance(5*time.Second, span, 1000))
	require.EqualValues(t, 1000, s.Least(Good))
	require.EqualValues(t, 5000, s.Advance(55*time.Second, span, 6000))
	require.EqualValues(t, 1000, s.Least(Good), "of 50 s at 100 a second")
	require.Zero(t, s.Advance(55*time.Second, span, 6000))
	require.Zero(t, s.Advance(55*time.Second, span, 10), "a total that is smaller is none")
}

func TestSlideTellsHowManySuccessesMayBeOfLate(t *testing.T) {
	var s Slide
	s.Advance(time.Hour, span, 1000) // from the whole hour, or from its last second
	require.Less(t, s.Least(Good), uint64(10))
	require.EqualValues(t, 1000, s.Fresh())
	s.Advance(time.Hour+time.Second, span, 1100)
	require.EqualValues(t, 1100, s.Fresh())
	s.Advance(time.Hour+2*time.Second, span, 1200)
	require.EqualValues(t, 200, s.Fresh())
	s.Advance(time.Hour+20*time.Second, span, 1300)
	require.EqualValues(t, 100, s.Fresh(), "the 100 before are older than the window")
}

func TestSlideStandsStillWhereTheTimeGoesBack(t *testing.T) {
	var s Slide
	s.Advance(5*time.Second, span, 10)
	s.Advance(-time.Hour, span, 20)
	require.EqualValues(t, 5, s.Bucket())
	require.EqualValues(t, 20, s.Least(Good))
}

func TestSlideTakesBackWhatItStillHolds(t *testing.T) {
	var s Slide
	s.Add(Bad, 2)
	first := s.Bucket()
	s.Advance(3*time.Second, span, 0)
	s.Remove(Bad, 1, first)
	require.EqualValues(t, 1, s.Least(Bad))
	s.Remove(Bad, 1, first)
	s.Remove(Bad, 1, first)
	require.EqualValues(t, 0, s.Least(Bad))
	s.Add(Bad, 1)
	s.Remove(Bad, 1, s.Bucket()+1)
	s.Remove(Bad, 1, s.Bucket()-20)
	require.EqualValues(t, 1, s.Least(Bad))
}

func TestSlideClears(t *testing.T) {
	var s Slide
	s.Advance(time.Second, span, 10)
	s.Add(Bad, 2)
	s.Clear()
	require.Zero(t, s.Most(Good)+s.Most(Bad)+s.Fresh())
	s.Advance(time.Second, span, 12)
	require.EqualValues(t, 2, s.Least(Good), "but for those seen before")
}

func TestSlideSaturates(t *testing.T) {
	var s Slide
	s.Add(Bad, math.MaxUint64)
	s.Add(Bad, 1)
	require.EqualValues(t, uint32(math.MaxUint32), s.Least(Bad))
	s.Advance(1, 1, math.MaxUint64) // a window shorter than its buckets
	require.EqualValues(t, uint32(math.MaxUint32), s.Least(Good))
}

// TestSlideAgreesWithAList compares with a list of all events and their times.
func TestSlideAgreesWithAList(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var s Slide
		var events [kinds][]int64 // the bucket of each
		var now time.Duration
		total := uint64(0)
		for range 200 {
			k := Kind(random.IntN(kinds))
			if k == Good {
				total++
			} else {
				s.Add(k, 1)
			}
			s.Advance(now, span, total)
			events[k] = append(events[k], int64(now/time.Second))
			if random.IntN(3) == 0 {
				now += time.Duration(random.Int64N(int64(4 * time.Second)))
			}
			s.Advance(now, span, total)
			for k := range Kind(kinds) {
				least, most := within(events[k], int64(now/time.Second))
				require.Equal(t, least, s.Least(k), "seed %d", seed)
				require.Equal(t, most, s.Most(k), "seed %d", seed)
			}
			require.LessOrEqual(t, s.Fresh(), s.Least(Good), "all of them are dated")
		}
	}
}

func within(buckets []int64, now int64) (least, most uint64) {
	for _, b := range buckets {
		if b > now-Buckets {
			least++
		}
		if b >= now-Buckets {
			most++
		}
	}
	return least, most
}

var dawn = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

func TestRingBeginsAtTheFirstLook(t *testing.T) {
	var r Ring
	r.Advance(dawn.Add(time.Hour), span, 100)
	require.EqualValues(t, 100, r.Least(Good))
}

func TestRingBeginsWhereItIsTold(t *testing.T) {
	var r Ring
	r.Start(time.Time{})
	r.Start(dawn)
	r.Start(dawn.Add(time.Hour))
	r.Advance(dawn.Add(100*time.Second), span, 1000)
	require.EqualValues(t, 100, r.Least(Good))
}

func TestRingGoesOnWhereTheClockGoesBack(t *testing.T) {
	var r Ring
	r.Start(dawn)
	r.Advance(dawn.Add(5*time.Second), span, 0)
	r.Add(Bad, 1)
	r.Advance(dawn.Add(-time.Hour), span, 7)
	require.EqualValues(t, 5, r.Bucket())
	require.EqualValues(t, 7, r.Least(Good))
	r.Advance(dawn.Add(-time.Hour).Add(9*time.Second), span, 7)
	require.EqualValues(t, 1, r.Least(Bad))
	r.Advance(dawn.Add(-time.Hour).Add(10*time.Second), span, 7)
	require.EqualValues(t, 0, r.Least(Bad))
}

func TestRingKnowsWhetherItNeedsToSlide(t *testing.T) {
	var r Ring
	r.Advance(dawn, span, 0)
	r.Advance(dawn.Add(1500*time.Millisecond), span, 0)
	for at, want := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Second - 1: false, time.Second: true, 2*time.Second - 1: true, 2 * time.Second: false, time.Hour: false,
		1 << 62: false, -1 << 62: false,
	} {
		require.Equal(t, want, r.Within(dawn.Add(at), span), "at %v", at)
	}
	r.Advance(dawn.Add(-time.Hour), span, 0)
	require.True(t, r.Within(dawn.Add(-time.Hour), span), "where the clock goes back")
}

// TestLastAgreesWithAList compares with a list of all outcomes.
func TestLastAgreesWithAList(t *testing.T) {
	type outcome struct{ bad, other bool }
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := 1 + random.IntN(150)
		l := NewLast(size)
		var all []outcome
		total := uint64(0)
		for range 300 {
			switch random.IntN(4) {
			case 0:
				l.Bad()
				all = append(all, outcome{bad: true})
			case 1:
				l.Bad()
				l.Other()
				all = append(all, outcome{bad: true, other: true})
			case 2:
				n := uint64(random.IntN(40))
				total += n
				require.Equal(t, n, l.Advance(total))
				all = append(all, make([]outcome, n)...)
			case 3:
				total++
				l.Advance(total)
				l.Other()
				all = append(all, outcome{other: true})
			}
			good, bad, other := uint64(0), uint64(0), uint64(0)
			for _, o := range all[max(0, len(all)-size):] {
				good, bad, other = good+one(!o.bad), bad+one(o.bad), other+one(o.other)
			}
			require.Equal(t, []uint64{good, bad, other}, []uint64{l.Count(Good), l.Count(Bad), l.Count(Other)}, "seed %d", seed)
			require.Equal(t, len(all) >= size, l.Full())
		}
	}
}

func one(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

func TestLastTakesInMoreThanItHolds(t *testing.T) {
	l := NewLast(100)
	l.Bad()
	require.EqualValues(t, 1_000_000, l.Advance(1_000_000))
	require.Zero(t, l.Advance(5), "a total that is smaller is none")
	require.EqualValues(t, 100, l.Count(Good))
	require.Zero(t, l.Count(Bad))
}
