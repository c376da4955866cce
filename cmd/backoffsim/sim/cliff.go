package sim

import (
	"errors"
	"fmt"
	"time"
)

// FindCliff looks between lo and hi for the point from which on a client does
// not recover in all seeds. It halves the interval until it is no longer than
// tolerance. It assumes that a client that does not recover at one point does
// not recover at higher ones.
func FindCliff(s Scenario, c Client, axis CliffAxis, lo, hi, tolerance float64, o Options) (Cliff, error) {
	if !(lo > 0 && hi > lo && tolerance > 0) {
		return Cliff{}, fmt.Errorf("cliff: from %v to %v within %v, want 0 < from < to, and more than 0", lo, hi, tolerance)
	}
	search := cliffSearch{s, c, axis, o}
	if ok, err := search.recovers(lo); err != nil || !ok {
		return Cliff{Unsafe: lo}, err
	}
	if ok, err := search.recovers(hi); err != nil || ok {
		return Cliff{Safe: hi}, err
	}
	for hi-lo > tolerance {
		middle := (lo + hi) / 2
		ok, err := search.recovers(middle)
		if err != nil {
			return Cliff{}, err
		}
		if ok {
			lo = middle
		} else {
			hi = middle
		}
	}
	return Cliff{Safe: lo, Unsafe: hi}, nil
}

// A cliffSearch simulates a client at points of an axis.
type cliffSearch struct {
	scenario Scenario
	client   Client
	axis     CliffAxis
	options  Options
}

// recovers reports whether the client recovers in all seeds at a point.
func (c *cliffSearch) recovers(x float64) (bool, error) {
	varied, err := c.scenario.at(c.axis, x)
	if err != nil {
		return false, err
	}
	r, err := Compare(varied, []Client{c.client}, c.options)
	return err == nil && r[0].Never == 0, err
}

// at returns the scenario at a point of the axis.
func (s Scenario) at(axis CliffAxis, x float64) (Scenario, error) {
	if s.Fault.For == 0 {
		return s, errors.New("cliff: the scenario has no fault to recover from")
	}
	if axis == CliffDip {
		longer := seconds(x) - s.Fault.For
		s.Fault.For += longer
		s.Horizon += longer
		return s, nil
	}
	capacity := s.Server.Capacity()
	switch {
	case s.Server.Service.Mean() == 0:
		return s, errors.New("cliff: the load has no meaning where the service takes no time")
	case s.Users > 0:
		s.Users = int(x*capacity*(s.Think+s.Server.Service.Mean()).Seconds() + 0.5)
	case s.Every > 0:
		s.Every = time.Duration(float64(time.Second) / (x * capacity))
	case s.Trace != nil:
		return s, errors.New("cliff: the load of a trace is what it is")
	default:
		s.Rate = x * capacity
	}
	return s, nil
}
