package circuit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/circuit/model"
)

// driver drives a circuit as a breaker does, but for locks and errors.
type driver struct {
	config       circuit.Config
	slowCall     time.Duration
	probeTimeout time.Duration
	openFor      func(openings int) time.Duration
	paths        circuit.Paths
	live         *circuit.Live
}

func modelled(m *model.Circuit) model.Subject {
	d := &driver{config: m.Config, slowCall: m.SlowCall, probeTimeout: m.ProbeTimeout, openFor: m.OpenFor}
	if m.SlowCall == 0 {
		d.config.SlowRate = -1
	}
	d.config = d.config.WithDefaults()
	d.begin(circuit.Phase{})
	d.Stats()
	return d
}

func (d *driver) begin(p circuit.Phase) {
	d.live = new(circuit.Live)
	d.live.Begin(p, d.paths)
}

func (d *driver) step(in *circuit.Input) circuit.Effects {
	next, effects := d.live.Step(&d.config, in, func(openings int, _ bool) time.Duration { return d.openFor(openings) })
	if effects.Changed {
		d.begin(next)
	}
	return effects
}

func (d *driver) expire() {
	if d.live.Expired() {
		d.step(&circuit.Input{Kind: circuit.Tick, ProbeTimeout: d.probeTimeout})
	}
}

func (d *driver) Allow() (done func(circuit.Score), ok bool) {
	d.expire()
	e := circuit.Effects{Admitted: true}
	if path, _ := d.live.Admit(nil); path == circuit.PathAsk {
		e = d.step(&circuit.Input{Kind: circuit.Ask})
	}
	from, began := d.live, time.Now()
	return func(s circuit.Score) {
		slow := d.slowCall > 0 && time.Since(began) >= d.slowCall
		if from == d.live {
			d.step(&circuit.Input{Kind: circuit.Answer, Permit: circuit.Permit{Probe: e.Probe}, Score: s, Slow: slow})
		}
	}, e.Admitted
}

func (d *driver) Call(s circuit.Score) (admitted bool) {
	done, ok := d.Allow()
	if ok {
		done(s)
	}
	return ok
}

func (d *driver) Reset() { d.step(&circuit.Input{Kind: circuit.Reset}) }

func (d *driver) Trip() {
	d.expire()
	d.step(&circuit.Input{Kind: circuit.Trip})
}

func (d *driver) Kind() circuit.Kind {
	if d.live.Expired() {
		return circuit.HalfOpen
	}
	return d.live.Kind
}

func (d *driver) Phases() int { return int(d.live.Generation) }

func (d *driver) Stats() (good, bad, slow, inARow, openings int) {
	var in circuit.Input // a Tick
	if d.live.Kind == circuit.Closed {
		d.step(&in)
	}
	s := d.live.State()
	return int(in.Calls.Good), int(in.Calls.Bad), int(in.Calls.Slow), int(s.Failures.InARow), int(s.Openings)
}

// The same programs as for the breaker, without a breaker.
func TestTheCircuitAgreesWithItsModel(t *testing.T) {
	for seed := range uint64(500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { model.Compare(t, model.Program(seed), modelled) })
		})
	}
}
