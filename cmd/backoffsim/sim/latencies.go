package sim

import (
	"math/bits"
	"time"
)

// A latencyHistogram counts times, exact to within 0.8 %.
type latencyHistogram struct {
	counts []int
	total  int
}

// bucketBits is how many leading bits of a time select its bucket.
const bucketBits = 7

func (l *latencyHistogram) add(d time.Duration) {
	if l.counts == nil {
		l.counts = make([]int, bucketOf(forever)+1)
	}
	l.counts[bucketOf(d)]++
	l.total++
}

// bucketOf returns the bucket of a time. There is a bucket for each nanosecond
// up to 2^bucketBits, and then 2^(bucketBits-1) buckets for each power of two.
func bucketOf(d time.Duration) int {
	u := uint64(max(0, d))
	shift := max(0, bits.Len64(u)-bucketBits)
	return shift<<(bucketBits-1) + int(u>>shift)
}

// middleOf returns the time in the middle of a bucket.
func middleOf(bucket int) time.Duration {
	shift := max(0, bucket>>(bucketBits-1)-1)
	low := uint64(bucket-shift<<(bucketBits-1)) << shift
	return time.Duration(low + 1<<shift/2)
}

// quantile returns the time that a share q of all times do not exceed, and 0 if
// there are none.
func (l *latencyHistogram) quantile(q float64) time.Duration {
	rank := int(q * float64(l.total))
	for bucket, n := range l.counts {
		if rank -= n; rank < 0 {
			return middleOf(bucket)
		}
	}
	if l.total == 0 {
		return 0
	}
	return l.quantile(1 - 1/float64(l.total))
}
