package chart

import (
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
	// attempts before, and after the dip until the recovery, as multiples of
	// capacity.
	attempts float64
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

func dip(shapes []shape) Dip {
	d := Dip{
		Frame: frame("Open loop at 80 % load, capacity 1000/s, 30 % of it for 10 s; attempt timeout 1 s, unlimited queue, 20 processes."),
		From:  30, To: 40, Trigger: "dip to 30 %",
	}
	for t := range 240 {
		d.Seconds = append(d.Seconds, float64(t))
	}
	for i, s := range shapes {
		d.Lines = append(d.Lines, dipLine(s, rand.New(rand.NewPCG(1, uint64(i))), d.Seconds))
	}
	return d
}

func dipLine(s shape, r *rand.Rand, seconds []float64) DipLine {
	l := DipLine{Policy: Policy{Name: s.name, Parameters: s.parameters}, Recovery: s.recovery}
	for _, t := range seconds {
		good, sent := 100.0, .8
		if t >= 30 {
			good = 1 / (1 + math.Exp(-(t-38-s.recovery)*1.2)) * 100
			sent = s.attempts + (.8-s.attempts)*good/100
			if t < 33 {
				good, sent = 100-(t-29)*30, .8+(s.attempts-.8)*(t-29)/4
			}
		}
		noise := r.NormFloat64()
		add(&l.Goodput, max(0, good+noise*.6*math.Sqrt(good/100)), 2+good*(100-good)/150)
		add(&l.Attempts, sent*(1+noise*.008), sent*.05)
	}
	return l
}

// add appends a mean with quantiles at a distance.
func add(b *Band, mean, distance float64) {
	b.Mean = append(b.Mean, mean)
	b.Low = append(b.Low, max(0, mean-distance))
	b.High = append(b.High, mean+distance)
}

var layered = []Policy{
	{Name: "none", Parameters: "no retries"},
	{Name: "naive", Parameters: "4 attempts at each of three layers"},
	{Name: "default", Parameters: "4 attempts, success-funded budget, a layer that gave up is final"},
	{Name: "budget 10 %", Parameters: "4 attempts, budget of 10 % at each layer"},
	{Name: "500-5-1", Parameters: "4 attempts, quota 500, retry 5, success 1"},
	{Name: "gRPC 10/0.1", Parameters: "4 attempts, throttle of 10 tokens, ratio 0.1"},
	{Name: "breaker 30 s", Parameters: "4 attempts, breaker 50 % of 20 results, open for 30 s"},
}

func failure() Failure {
	d := Failure{
		Frame:       frame("User, three layers, leaf; every leaf call fails independently; the last 300 s of a fault of 600 s."),
		Probability: []float64{0, .01, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1},
	}
	table := []struct{ calls, success []float64 }{
		{[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []float64{100, 99, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0}},
		{[]float64{1, 1.01, 1.11, 1.25, 1.43, 1.67, 2, 2.5, 3.33, 5, 10, 64}, []float64{100, 100, 100, 100, 100, 100, 100, 100, 100, 99.9, 99.8, 0}},
		{[]float64{1, 1.01, 1.098, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1}, []float64{100, 100, 98.8, 88, 77, 66, 55, 44, 33, 22, 11, 0}},
		{[]float64{1, 1.01, 1.11, 1.25, 1.33, 1.33, 1.331, 1.331, 1.331, 1.331, 1.331, 1.331}, []float64{100, 100, 100, 99, 92, 79, 66.5, 53, 40, 27, 13, 0}},
		{[]float64{1, 1.01, 1.11, 1.25, 1.43, 1.66, 1.953, 1.9, 1.7, 1.4, 1.15, 1}, []float64{100, 100, 100, 100, 100, 99.6, 97.7, 76, 51, 28, 11, 0}},
		{[]float64{1, 1.01, 1.061, 1.02, 1, 1, 1, 1, 1, 1, 1, 1}, []float64{100, 100, 95.5, 82, 70, 60, 50, 40, 30, 20, 10, 0}},
		{[]float64{1, 1.01, 1.11, 1.2, .8, .2, .026, .015, .009, .006, .004, .0033}, []float64{100, 100, 100, 99, 66, 14, 1.3, .6, .3, .1, 0, 0}},
	}
	for i, p := range layered {
		l := FailureLine{Policy: p}
		for k := range d.Probability {
			add(&l.Calls, table[i].calls[k], table[i].calls[k]*.03)
			add(&l.Success, table[i].success[k], 0)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func layers() Layers {
	d := Layers{
		Frame: Frame{Conditions: "The leaf fails every call; three layers with 4 attempts each.", Seed: 1, Seeds: 100, Version: "v1.0.0"},
		Hops:  []string{"layer 1", "layer 2", "layer 3", "leaf"},
	}
	calls := [][]float64{
		{1, 1, 1, 1}, {1, 4, 16, 64}, {1, 1, 1, 1.1}, {1, 1.1, 1.21, 1.331}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, .25, .03, .00017},
	}
	for i, p := range layered {
		d.Policies = append(d.Policies, LayersPolicy{Policy: p, Calls: calls[i]})
	}
	return d
}

func recoveryMap() Map {
	d := Map{
		Frame:   frame("Capacity 1000/s, 30 % of it during the dip; attempt timeout 1 s, unlimited queue, 20 processes."),
		Load:    []float64{10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95},
		Y:       []float64{1, 2, 5, 10, 20, 60},
		YLabel:  "length of the dip, s",
		Horizon: 200,
		Mark:    &Mark{Load: 80, Y: 10},
	}
	for _, s := range shapes[:6] {
		m := PolicyMap{Policy: Policy{Name: s.name, Parameters: s.parameters}}
		ratio, naive := map[string]float64{"budget 10 %": .1, "500-5-1": .03}[s.name], math.IsInf(s.recovery, 1)
		for _, y := range d.Y {
			var row []float64
			for _, load := range d.Load {
				row = append(row, recovery(load/100*(1+ratio), y, naive))
			}
			m.Recovery = append(m.Recovery, row)
		}
		d.Maps = append(d.Maps, m)
	}
	return d
}

// recovery is the closed form of the dip.
func recovery(load, dip float64, naive bool) float64 {
	if naive && load > .25 && dip > 1 {
		return never
	}
	s := ((load-.3)*dip + .2 - .2) / (1 - load)
	if load >= 1 || s > 200 {
		return never
	}
	return max(0, s)
}

func herd() Herd {
	d := Herd{
		Frame:    frame("1000 clients fail together at 0; capacity 500/s, at most 50 in the server, base 100 ms, cap 10 s."),
		Capacity: 50,
	}
	for i := range 100 {
		d.Seconds = append(d.Seconds, float64(i)/10)
	}
	strategies := []struct {
		name   string
		jitter func(e float64, r *rand.Rand) float64
		drain  float64
	}{
		{"constant 1 s", func(_ float64, _ *rand.Rand) float64 { return 1 }, 18.26},
		{"exponential, no jitter", func(e float64, _ *rand.Rand) float64 { return e }, 122.96},
		{"equal jitter", func(e float64, r *rand.Rand) float64 { return e/2 + r.Float64()*e/2 }, 2.95},
		{"full jitter", func(e float64, r *rand.Rand) float64 { return r.Float64() * e }, 5.95},
		{"full jitter, base 1 s", func(e float64, r *rand.Rand) float64 { return r.Float64() * min(10, 10*e) }, 6.72},
	}
	for _, s := range strategies {
		b := arrivals(s.jitter)
		d.Panels = append(d.Panels, HerdPanel{
			Policy: Policy{Name: s.name}, Peak: slices.Max(b.Mean), Drain: s.drain, Arrivals: b,
		})
	}
	return d
}

// arrivals lets 1000 clients retry at a server that takes 5 in 10 ms.
func arrivals(jitter func(float64, *rand.Rand) float64) Band {
	r := rand.New(rand.NewPCG(7, 7))
	at := make([]float64, 1000)
	tries := make([]int, 1000)
	for i := range at {
		at[i] = .005 + .001*r.NormFloat64()
	}
	b := Band{Mean: make([]float64, 100)}
	for slot := range 1000 {
		free := 5
		for i := range at {
			if int(at[i]*100) != slot {
				continue
			}
			b.Mean[slot/10]++
			if free--; free >= 0 {
				at[i] = math.Inf(1)
				continue
			}
			at[i] += .01 + jitter(min(10, .1*math.Pow(2, float64(tries[i]))), r)
			tries[i]++
		}
	}
	return b
}

func occ() OCC {
	d := OCC{Frame: frame("Each client needs one successful update; network delay 10 ms, base 5 ms, cap 2 s.")}
	d.Seeds = 500
	for n := 10; n <= 120; n += 10 {
		d.Clients = append(d.Clients, float64(n))
	}
	strategies := []struct {
		name                 string
		calls, power, second float64
	}{
		{"none", 3900, 1.84, 2.2}, {"exponential", 3000, 1.59, 40}, {"equal", 1350, 1.21, 4.3},
		{"full", 1290, 1.25, 3.1}, {"decorrelated", 1620, 1.4, 2.9},
	}
	for _, s := range strategies {
		l := OCCLine{Policy: Policy{Name: s.name}}
		for _, n := range d.Clients {
			calls, second := s.calls*math.Pow(n/100, s.power), s.second*math.Pow(n/100, .9)
			l.Calls.Mean, l.Calls.SE = append(l.Calls.Mean, calls), append(l.Calls.SE, calls*.008)
			l.Time.Mean, l.Time.SE = append(l.Time.Mean, second), append(l.Time.SE, second*.03)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func delays() Delays {
	d := Delays{Frame: Frame{Version: "v1.0.0"}, Deadline: 30}
	kinds := []struct {
		name, parameters string
		initial, cap     float64
		attempts         int
		low              float64
	}{
		{"default", "100 ms, factor 2, cap 10 s, full jitter, 4 attempts", .1, 10, 4, 0},
		{"mine", "500 ms, factor 2, cap 30 s, equal jitter, 8 attempts", .5, 30, 8, .5},
		{"cloud", "1 s, factor 2, cap 20 s, no jitter, 6 attempts", 1, 20, 6, 1},
	}
	for _, k := range kinds {
		l := DelaysLine{Policy: Policy{Name: k.name, Parameters: k.parameters}}
		low, high := 0.0, 0.0
		for i := range k.attempts - 1 {
			e := min(k.cap, k.initial*math.Pow(2, float64(i)))
			low, high = low+e*k.low, high+e
			appendRange(&l.Delay, e*k.low, e)
			appendRange(&l.Elapsed, low, high)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func appendRange(b *Band, low, high float64) {
	b.Mean = append(b.Mean, (low+high)/2)
	b.Low = append(b.Low, low)
	b.High = append(b.High, high)
}
