package circuit

import (
	"encoding/binary"
	"sort"
	"time"
)

// Leases are the places of the probes that have not answered, each with the age
// of the phase at which it ends. Any number of probes may be under way, and a
// State must be comparable: so Leases is a string, with twelve bytes for each
// probe. The probes are in the order of their numbers, in which their leases
// end, too: all leases of a phase are equally long.
type Leases string

const leaseBytes = 4 + 8 // the number of the probe, and the end of its lease

func (l Leases) len() int { return len(l) / leaseBytes }

func (l Leases) number(i int) uint32 { return binary.BigEndian.Uint32([]byte(l[i*leaseBytes:][:4])) }

func (l Leases) end(i int) time.Duration {
	return time.Duration(binary.BigEndian.Uint64([]byte(l[i*leaseBytes:][4:leaseBytes])))
}

// Count returns how many leases have not ended at an age of the phase.
func (l Leases) Count(age time.Duration) int { return l.after(age).len() }

// after returns the leases that have not ended.
func (l Leases) after(age time.Duration) Leases {
	i := 0
	for i < l.len() && l.end(i) <= age {
		i++
	}
	return l[i*leaseBytes:]
}

// with returns the leases and one more.
func (l Leases) with(number uint32, end time.Duration) Leases {
	b := make([]byte, 0, len(l)+leaseBytes)
	b = append(b, l...)
	b = binary.BigEndian.AppendUint32(b, number)
	return Leases(binary.BigEndian.AppendUint64(b, uint64(end)))
}

// without returns the leases but for that of one probe, if it is among them.
func (l Leases) without(number uint32) Leases {
	i := sort.Search(l.len(), func(i int) bool { return l.number(i) >= number })
	if i == l.len() || l.number(i) != number {
		return l
	}
	return l[:i*leaseBytes] + l[(i+1)*leaseBytes:]
}
