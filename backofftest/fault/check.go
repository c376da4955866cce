package fault

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// Check fails the test unless there were n attempts, of which all checks hold. It
// then shows all attempts. Checks are [SameKey], [WholeBody], [Closed], that of
// [Waits], and your own.
func (i *Injector) Check(t testing.TB, n int, checks ...func([]Attempt) error) {
	t.Helper()
	sent, wrong := i.Attempts(), ""
	if made, _ := i.Counts(); made != n {
		wrong = fmt.Sprintf("%d attempts, want %d\n", made, n)
	}
	for _, check := range checks {
		if err := check(sent); err != nil {
			wrong += err.Error() + "\n"
		}
	}
	if wrong != "" {
		t.Errorf("%s%s", wrong, table(sent))
	}
}

// each returns an error for the first attempt of which wrong says something.
func each(sent []Attempt, wrong func(Attempt) string) error {
	for _, a := range sent {
		if s := wrong(a); s != "" {
			return fmt.Errorf("attempt %d %s", a.Number, s)
		}
	}
	return nil
}

// SameKey is a check that all attempts have the same Idempotency-Key, and have one.
func SameKey(sent []Attempt) error {
	return each(sent, func(a Attempt) string {
		switch {
		case a.Key == "":
			return "has no Idempotency-Key"
		case a.Key != sent[0].Key:
			return "has another Idempotency-Key than the first one"
		}
		return ""
	})
}

// WholeBody is a check that the body of each attempt was read to its end, and is
// that of the others. It leaves out attempts that [Reset] or [CutRequest] kept
// from the service.
func WholeBody(sent []Attempt) error {
	var first *Attempt
	return each(sent, func(a Attempt) string {
		if a.Fault.kind == reset || a.Fault.kind == cutRequest {
			return ""
		}
		if first == nil {
			first = &a
		}
		switch {
		case !a.Whole:
			return fmt.Sprintf("sent %d bytes, and not all of its body", a.Length)
		case a.Sum != first.Sum:
			return fmt.Sprintf("has another body than attempt %d", first.Number)
		}
		return ""
	})
}

// Closed is a check that the body of each response was closed.
func Closed(sent []Attempt) error {
	return each(sent, func(a Attempt) string {
		if a.Open {
			return "has a response whose body is not closed"
		}
		return ""
	})
}

// Waits returns a check of the waits between attempts, from the end of one to the
// begin of the next. They are exact: use it in a bubble of testing/synctest.
func Waits(want ...time.Duration) func([]Attempt) error {
	return func(sent []Attempt) error {
		var waits []time.Duration
		for n := 1; n < len(sent); n++ {
			waits = append(waits, sent[n].Began.Sub(sent[n-1].Ended))
		}
		if fmt.Sprint(waits) != fmt.Sprint(want) {
			return fmt.Errorf("waits of %v, want %v", waits, want)
		}
		return nil
	}
}

// table shows attempts.
func table(sent []Attempt) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "#\tafter\trequest\tkey\tsent\tfault\toutcome")
	for _, a := range sent {
		fmt.Fprintf(w, "%d\t%v\t%s %s\t%s\t%s\t%v\t%s\n", a.Number, a.Began.Sub(sent[0].Began).Round(time.Microsecond),
			a.Method, a.Path, a.Key, a.size(), a.Fault, a.outcome())
	}
	w.Flush()
	return b.String()
}

// size describes what was read of the request.
func (a Attempt) size() string {
	s := fmt.Sprintf("%d B", a.Length)
	if a.Sum != "" {
		s += " " + a.Sum[:6]
	}
	if !a.Whole {
		s += ", not all"
	}
	return s
}

// outcome describes what the client got.
func (a Attempt) outcome() string {
	switch {
	case a.Ended.IsZero():
		return "under way"
	case a.Err != nil:
		return a.Err.Error()
	case a.Open:
		return fmt.Sprintf("%d, not closed", a.Status)
	case a.Status != 0:
		return fmt.Sprint(a.Status)
	}
	return "success"
}
