package guides

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/spec"
)

var search = backoff.Policy{
	Name:           "search",
	MaxAttempts:    3,
	AttemptTimeout: 400 * time.Millisecond, // p99.5 is 330 ms
	Schedule:       backoff.Exponential{Initial: 50 * time.Millisecond, Max: time.Second},
	Budget:         new(backoff.RetryBudget),
}

func Example_tuning() {
	for attempts := 2; attempts <= 5; attempts++ {
		most := time.Duration(attempts) * search.AttemptTimeout
		for retry := 1; retry < attempts; retry++ {
			most += search.Schedule.Delay(retry) // full jitter waits no longer
		}
		fmt.Println(attempts, "attempts take at most", most)
	}
	// Output:
	// 2 attempts take at most 850ms
	// 3 attempts take at most 1.35s
	// 4 attempts take at most 1.95s
	// 5 attempts take at most 2.75s
}

var index = backoff.Policy{
	Name:           "index",
	MaxAttempts:    -1, // MaxElapsed ends the call
	MaxElapsed:     15 * time.Minute,
	AttemptTimeout: 10 * time.Second,
	Schedule:       backoff.Exponential{Initial: time.Second, Max: 30 * time.Second},
}

// The job outlives an outage of ten minutes, and goes on as soon as the guide
// says.
func TestTheJobOfTheTuningGuideSurvivesAnIncident(t *testing.T) {
	const outage = 10 * time.Minute
	short := backoff.Policy{Name: index.Name, MaxElapsed: index.MaxElapsed, AttemptTimeout: index.AttemptTimeout}
	latest, attempts := time.Duration(0), 0
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			free := survive(t, index, outage)
			if late := free.took - outage; late > 30*time.Second {
				t.Errorf("without a breaker it goes on %v after the outage", late)
			}
			waits := survive(t, (&guard.Service{NoBudget: true}).With(short), outage)
			if late := waits.took - outage; late > 78*time.Second {
				t.Errorf("waiting, it goes on %v after the outage", late)
			}
			latest, attempts = max(latest, waits.took-outage), attempts+waits.attempts
		})
	}
	t.Logf("waiting: at most %v after the outage, %d attempts a job", latest, attempts/100)
}

type run struct {
	took     time.Duration
	attempts int
}

// survive calls a service that is down at first.
func survive(t *testing.T, d backoff.Doer, outage time.Duration) (r run) {
	t.Helper()
	began := time.Now()
	err := d.Do(t.Context(), func(context.Context) error {
		r.attempts++
		if time.Since(began) < outage {
			return errors.New("down")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	r.took = time.Since(began)
	return r
}

// The file that the guide simulates is the policy that it derives.
func TestTheFileIsThePolicyOfTheTuningGuide(t *testing.T) {
	file := regexp.MustCompile("(?s)<!-- file search.json -->\n```json\n(.*?)```").FindStringSubmatch(read(t, "../../docs/tuning.md"))
	if file == nil {
		t.Fatal("there is no file search.json")
	}
	written, _ := spec.Parse([]byte(file[1])) // Service says what is wrong, too
	_, got, err := written.Service()
	if err != nil {
		t.Fatal(err)
	}
	if _, usual := got.Budget.(*backoff.RetryBudget); !usual {
		t.Errorf("its budget is %T", got.Budget)
	}
	want := search
	got.Budget, want.Budget = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
