package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pageData is what the page is made of.
type pageData struct {
	Now    int64
	Period struct {
		Start   int64
		Seconds float64
		Text    string
	}
	Process struct {
		Program, Host, Version, Go string
		PID                        int
		Started                    int64
	}
	Headline struct {
		Level     string
		Sentences []struct{ Text, ID string }
	}
	Operations []cardData
	Controls   struct{ Overrides []struct{ Text string } }
	Breakers   []breakerData
	Budgets    []budgetData
}

type budgetData struct {
	Name                       string
	Used, Left, Allowed, Extra int
	Text                       string
}

type cardData struct {
	ID, Name, Endpoint, Level, Text string
	Circuit                         *breakerData
	Calls, Attempts                 int
	AttemptsPerCall                 float64 `json:"attempts_per_call"`
	CallsPerSecond                  float64 `json:"calls_per_second"`
	FailedShare                     string  `json:"failed_share"`
	Outcomes                        []struct {
		Name, Share string
		Count       int
	}
	Errors []struct {
		Type, Class string
		Count       int
		Since, Last int64
	}
	Attempting *struct {
		P50, P95, P99 float64
		Count         int
		InFlight      int `json:"in_flight"`
	}
	Chart struct {
		Step                     float64
		Succeeded, Failed, Extra []float64
	}
}

type breakerData struct {
	Name, State, Level, Text string
	Refused, Opened          int
}

// look returns what the page shows.
func look(t *testing.T, h http.Handler) *pageData {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/data", nil))
	d := new(pageData)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), d))
	return d
}

// card returns the card of an operation, or an empty one.
func (d *pageData) card(name string) cardData {
	for _, c := range d.Operations {
		if c.Name == name {
			return c
		}
	}
	return cardData{}
}

// outcome returns how many calls ended in a way.
func (c cardData) outcome(name string) int {
	for _, o := range c.Outcomes {
		if o.Name == name {
			return o.Count
		}
	}
	return -1
}

func (d *pageData) headline() string {
	var all []string
	for _, s := range d.Headline.Sentences {
		all = append(all, s.Text)
	}
	return strings.Join(all, " ")
}
