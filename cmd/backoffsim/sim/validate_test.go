package sim

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScenariosOfTheReferenceAreValid(t *testing.T) {
	require.NoError(t, Dip().Validate())
	require.NoError(t, ClosedDip(time.Second).Validate())
	require.NoError(t, Chain(1).Validate())
	require.NoError(t, RateLimit().Validate())
	require.NoError(t, Lying().Validate())
	require.NoError(t, Herd().Validate())
	require.Equal(t, 803, ClosedDip(time.Second).Users)
	require.Equal(t, 4004, ClosedDip(5*time.Second).Users)
}

func TestScenariosThatCannotBeAreRefusedByTheirField(t *testing.T) {
	for want, change := range map[string]func(*Scenario){
		"0 of -rate, -every, -users and -trace": func(s *Scenario) { s.Rate = 0 },
		"2 of -rate, -every, -users and -trace": func(s *Scenario) { s.Users = 1 },
		"-rate is -1":                           func(s *Scenario) { s.Rate = -1 },
		"-rate is NaN":                          func(s *Scenario) { s.Rate = math.NaN() },
		"-every is -1s":                         func(s *Scenario) { s.Rate, s.Every = 0, -time.Second },
		"-users is -1":                          func(s *Scenario) { s.Rate, s.Users = 0, -1 },
		"-calls is -1":                          func(s *Scenario) { s.Rate, s.Users, s.Calls = 0, 1, -1 },
		"-calls is 1, want 0 (for no limit) or more, and only with -users": func(s *Scenario) { s.Calls = 1 },
		"-think is -1s":                               func(s *Scenario) { s.Think = -time.Second },
		"are more than 100000000 calls":               func(s *Scenario) { s.Rate = 1e7 },
		"-trace is empty, want calls":                 func(s *Scenario) { s.Rate, s.Trace = 0, Trace{} },
		"-trace, line 2 is {1s 0s 1}":                 func(s *Scenario) { s.Rate, s.Trace = 0, Trace{{0, 2 * time.Second, 1}, {time.Second, 0, 1}} },
		"-processes is -1":                            func(s *Scenario) { s.Processes = -1 },
		"-layers is 33":                               func(s *Scenario) { s.Layers = 33 },
		"-timeout is -1s":                             func(s *Scenario) { s.Timeout = -time.Second },
		"-deadline is -1s":                            func(s *Scenario) { s.Deadline = -time.Second },
		"-delay-sd is -1s":                            func(s *Scenario) { s.DelaySD = -time.Second },
		"Server.Servers is -2":                        func(s *Scenario) { s.Server.Servers = -2 },
		"-service is -1s":                             func(s *Scenario) { s.Server.Service = Exact(-time.Second) },
		"-queue is -1":                                func(s *Scenario) { s.Server.Limit = -1 },
		"-limit is -1, want 0 (for no limit) or more": func(s *Scenario) { s.Server.Rate = -1 },
		"-limit is NaN":                               func(s *Scenario) { s.Server.Rate = math.NaN() },
		"-burst is -1, want 0 (for 1) or more":        func(s *Scenario) { s.Server.Burst = -1 },
		"-reject-cost is -1":                          func(s *Scenario) { s.Server.RejectCost = -1 },
		"-retry-after is -1s":                         func(s *Scenario) { s.Server.RetryAfter = -time.Second },
		"-errors is 1.5":                              func(s *Scenario) { s.Server.Errors = 1.5 },
		"-fault-at is -1s":                            func(s *Scenario) { s.Fault.From = -time.Second },
		"-fault is -1s":                               func(s *Scenario) { s.Fault.For = -time.Second },
		"-depth is 2":                                 func(s *Scenario) { s.Fault.Capacity = 2 },
		"-fault-errors is NaN":                        func(s *Scenario) { s.Fault.Errors = math.NaN() },
		"-fault-at + -fault is 5m0s, want less than the -horizon of 4m0s": func(s *Scenario) { s.Fault.From = 290 * time.Second },
		"-horizon is 0s":         func(s *Scenario) { s.Horizon, s.Fault = 0, Fault{} },
		"Until is -1s":           func(s *Scenario) { s.Until = -time.Second },
		"From and To is [2s 1s]": func(s *Scenario) { s.From, s.To = 2*time.Second, time.Second },
		"Recovered is 90":        func(s *Scenario) { s.Recovered = 90 },
	} {
		s := Dip()
		change(&s)
		require.ErrorContains(t, s.Validate(), want)
		_, err := Compare(s, []Client{None()}, Options{Seeds: 1})
		require.ErrorContains(t, err, want)
	}
}
