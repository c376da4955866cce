package guard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/guard/internal/line"
)

// A service that answered others while a call waited was not away.
func TestWhatACallSaysThatItWaitedForIsTrue(t *testing.T) {
	for want, c := range map[string]line.Call{
		"waited 1s for its turn":                           {For: "for its turn"},
		"waited 1s for its turn, 1 probe":                  {For: "for its turn", Probes: 1, Answers: 3},
		"waited 1s for the circuit":                        {For: "for the circuit"},
		"waited 1s for the circuit, 2 probes":              {For: "for the circuit", Probes: 2, Answers: 1},
		"waited 1s for the service to come back, 1 probe":  {For: "for the circuit", Probes: 1},
		"waited 1s for the service to come back, 2 probes": {Probes: 2},
		"waited 1s for room in the budget":                 {For: "for room in the budget", Answers: 1},
		"waited 1s as the service asked":                   {For: "as the service asked"},
	} {
		c.Waited = time.Second
		require.Equal(t, want, waited(&c))
	}
}
