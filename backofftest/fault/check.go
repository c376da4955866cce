package fault

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Check fails the test unless there were n attempts, of which all checks hold. It
// then shows all attempts. Checks are [SameKey], [WholeBody], [Closed], that of
// [Waits] or [WaitsWithin], and your own.
func (i *Injector) Check(t testing.TB, n int, checks ...func([]Attempt) error) {
	t.Helper()
	sent, wrong := i.Attempts(), ""
	if len(sent) != n {
		wrong = fmt.Sprintf("%d attempts, want %d\n", len(sent), n)
	}
	for _, check := range checks {
		if err := check(sent); err != nil {
			wrong += err.Error() + "\n"
		}
	}
	if wrong != "" {
		for _, a := range sent {
			wrong += fmt.Sprintf("%d after %v: %s %s, key %q, body of %d B %.6s, whole %v; %v: status %d, error %v, open %v\n",
				a.Number, a.Began.Sub(sent[0].Began), a.Method, a.Path, a.Key, a.Length, a.Sum, a.Whole, a.Fault, a.Status, a.Err, a.Open)
		}
		t.Error(wrong)
	}
}

// SameKey is a check that all attempts have the same Idempotency-Key, and have one.
func SameKey(sent []Attempt) error {
	return each(sent, "has no Idempotency-Key, or not that of the first attempt", func(first, a Attempt) bool { return a.Key != "" && a.Key == first.Key })
}

// WholeBody is a check that the body of each attempt was read to its end, and is
// that of the others. It leaves out attempts that [Reset] kept from the service.
func WholeBody(sent []Attempt) error {
	read := slices.DeleteFunc(slices.Clone(sent), func(a Attempt) bool { return a.Fault.kind == reset })
	return each(read, "did not send the whole body of the first attempt", func(first, a Attempt) bool { return a.Whole && a.Sum == first.Sum })
}

// Closed is a check that the body of each response was closed.
func Closed(sent []Attempt) error {
	return each(sent, "has a response whose body is not closed", func(_, a Attempt) bool { return !a.Open })
}

// each returns an error for the first attempt that is not right, beside the first of all.
func each(sent []Attempt, wrong string, right func(first, a Attempt) bool) error {
	for _, a := range sent {
		if !right(sent[0], a) {
			return fmt.Errorf("attempt %d %s", a.Number, wrong)
		}
	}
	return nil
}

// Waits returns a check of the waits between attempts, from the end of one to the
// begin of the next. They are exact: use it in a bubble of testing/synctest.
func Waits(want ...time.Duration) func([]Attempt) error {
	return waits(fmt.Sprint(want), func(got []time.Duration) bool { return slices.Equal(got, want) })
}

// WaitsWithin returns a check that each wait between attempts is at least least and
// at most most, as with jitter.
func WaitsWithin(least, most time.Duration) func([]Attempt) error {
	return waits(fmt.Sprintf("%v to %v", least, most), func(got []time.Duration) bool {
		return !slices.ContainsFunc(got, func(d time.Duration) bool { return d < least || d > most })
	})
}

// waits returns a check that the waits between attempts are right.
func waits(want string, right func([]time.Duration) bool) func([]Attempt) error {
	return func(sent []Attempt) error {
		var got []time.Duration
		for n := 1; n < len(sent); n++ {
			got = append(got, sent[n].Began.Sub(sent[n-1].Ended))
		}
		if !right(got) {
			return fmt.Errorf("waits of %v, want %v", got, want)
		}
		return nil
	}
}
