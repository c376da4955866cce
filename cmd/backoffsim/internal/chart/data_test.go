package chart

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// The data are close to those of the models, so that the pictures are like
// those that users get.

var never = math.Inf(1)

func frame(conditions string) Frame {
	return Frame{Conditions: conditions, Seed: 1, Seeds: 20, Version: "v1.0.0"}
}

// A shape is a policy's load and recovery after a dip.
type shape struct {
	name, parameters string
	recovery         float64
	attempts         float64 // after the dip until the recovery, as multiples of capacity
}

var shapes = []shape{
	{"none", "no retries", 21.1, .8},
	{"naive", "3 retries at once", never, 3.2},
	{"full jitter", "3 retries, base 100 ms, factor 2, cap 10 s, full jitter", never, 3.19},
	{"budget 10 %", "full jitter; a retry for every ten requests, reserve 10 per process", 41.7, .88},
	{"success-funded", "full jitter; a retry for every ten successes, reserve 10 per process", 22.6, .8},
	{"500-5-1", "full jitter; quota 500 per process, retry 5, success 1", 31.6, .82},
	{"breaker 5 s", "full jitter; breaker that opens at 50 % failures of 20, for 5 s", 6, .4},
	{"default", "full jitter; success-funded budget and breaker", 7.2, .45},
}

func (s shape) policy() Policy { return Policy{Name: s.name, Parameters: s.parameters} }

func dip(shapes []shape) Dip {
	d := Dip{
		Frame: frame("Open loop at 80 % load, capacity 1000/s, 30 % of it for 10 s; attempt timeout 1 s, 20 processes."),
		From:  30, To: 40, Trigger: "dip to 30 %",
	}
	for t := range 240 {
		d.Seconds = append(d.Seconds, float64(t))
	}
	for i, s := range shapes {
		l, r := Line{Policy: s.policy(), Recovery: s.recovery}, rand.New(rand.NewPCG(1, uint64(i)))
		for _, t := range d.Seconds {
			good, sent := 100.0, .8
			if t >= 30 {
				good = 100 / (1 + math.Exp(-(t-38-s.recovery)*1.2))
				sent = s.attempts + (.8-s.attempts)*good/100
			}
			noise := r.NormFloat64()
			add(&l.First, max(0, good+noise*.6*math.Sqrt(good/100)), 2+good*(100-good)/150)
			add(&l.Second, sent*(1+noise*.008), sent*.05)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

// add appends a mean with a range around it.
func add(b *Band, mean, distance float64) {
	b.Mean = append(b.Mean, mean)
	b.Low = append(b.Low, max(0, mean-distance))
	b.High = append(b.High, mean+distance)
}

// failure returns a chain of services in which each policy makes at most so many
// times the calls.
func failure(most ...float64) Failure {
	d := Failure{Frame: frame("User, three layers; every call of the last service fails independently.")}
	for n := range 11 {
		d.Probability = append(d.Probability, float64(n)/10)
	}
	for i, most := range most {
		l := Line{Policy: shapes[i].policy()}
		for _, p := range d.Probability {
			add(&l.First, math.Pow(most, p*p), .03)
			add(&l.Second, 100*(1-math.Pow(p, most)), 0)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func herd() Herd {
	d := Herd{Frame: frame("1000 clients fail together at 0; capacity 500/s."), Capacity: 50}
	for i := range 100 {
		d.Seconds = append(d.Seconds, float64(i)/10)
	}
	for n := range 5 {
		var arrivals []float64
		for i := range d.Seconds {
			arrivals = append(arrivals, 1000*math.Exp(-float64(i*n)/9)*float64((i+1)%2))
		}
		d.Panels = append(d.Panels, HerdPanel{
			Policy: Policy{Name: fmt.Sprintf("full jitter, base %d s", n)}, Peak: slices.Max(arrivals),
			Drain: 100 / float64(n+1), Arrivals: arrivals,
		})
	}
	return d
}
