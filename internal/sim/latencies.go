package sim

import (
	"math/bits"
	"time"
)

// latencies is a histogram of times, to within 0.8 %.
type latencies struct {
	counts []int
	total  int
}

const fine = 7 // bits of a time that tell buckets apart

func (l *latencies) add(d time.Duration) {
	if l.counts == nil {
		l.counts = make([]int, bucketOf(forever)+1)
	}
	l.counts[bucketOf(d)]++
	l.total++
}

// bucketOf numbers the buckets: exact up to 2^fine nanoseconds, then 2^(fine-1) for each
// power of two.
func bucketOf(d time.Duration) int {
	u := uint64(max(0, d))
	shift := max(0, bits.Len64(u)-fine)
	return shift<<(fine-1) + int(u>>shift)
}

// middleOf is the middle of a bucket.
func middleOf(bucket int) time.Duration {
	shift := max(0, bucket>>(fine-1)-1)
	low := uint64(bucket-shift<<(fine-1)) << shift
	return time.Duration(low + 1<<shift/2)
}

// quantile returns the time that a share q stay within; 0 if there are none.
func (l *latencies) quantile(q float64) time.Duration {
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
