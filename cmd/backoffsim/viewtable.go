package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// printViews prints a table of retries and a table of policies.
func (t *terminal) printViews(views []view, f *policyFlags) {
	rows := table{left: 2}
	rows.add("retry", "policy", "delay", "wait min", "mean", "max", "total min", "mean", "max")
	for n := range maxRetries {
		for _, v := range views {
			if n < len(v.retries) {
				rows.add(v.retries[n].cells(v.policy)...)
			}
		}
	}
	if len(rows.rows) > 1 {
		rows.print(t.out)
		fmt.Fprintln(t.out)
	}
	for _, v := range views {
		if v.more > 0 {
			fmt.Fprintf(t.out, "%s has %d more retries; -retries %d shows them.\n\n", v.policy, v.more, v.more+len(v.retries))
		}
	}
	summary := table{left: 1}
	head := []string{"policy", "attempts", "a call takes at most"}
	if f.deadline > 0 {
		head = append(head, "attempts within "+f.deadline.String(), "at mean waits")
	}
	summary.add(head...)
	for _, v := range views {
		summary.add(v.summary()...)
	}
	summary.print(t.out)
}

// cells returns the row of a retry.
func (s step) cells(policy string) []string {
	return []string{
		strconv.Itoa(s.retry), policy, exact(s.delay),
		exact(s.wait.min), about(s.wait.mean), exact(s.wait.max),
		exact(s.total.min), about(s.total.mean), exact(s.total.max),
	}
}

// summary returns the row of a policy.
func (v view) summary() []string {
	worst := "no limit"
	if v.worst >= 0 {
		worst = exact(v.worst)
		if !v.timed {
			worst += " + attempts"
		}
	}
	cells := []string{v.policy, v.attempts.String(), worst}
	if v.within.most > 0 {
		cells = append(cells, v.within.String(), strconv.Itoa(v.within.middle))
	}
	return cells
}

// String returns one number, or the smallest and the largest.
func (c count) String() string {
	most := strconv.Itoa(c.most)
	if c.more {
		most = "no limit"
	}
	if c.least == c.most {
		return most
	}
	return strconv.Itoa(c.least) + " to " + most
}

// exact formats a duration with six digits. The longest wait below 100ms is
// 99.999999ms, and is shown as 100ms.
func exact(d time.Duration) string { return digits(d, 6) }

// about formats a mean with three digits. Means are no more exact.
func about(d time.Duration) string { return digits(d, 3) }

// digits formats a duration with n digits.
func digits(d time.Duration, n int) string {
	if d <= 0 {
		return "0s"
	}
	unit := math.Pow(10, math.Floor(math.Log10(float64(d)))-float64(n-1))
	if unit > 1 {
		d = d.Round(time.Duration(unit))
	}
	return d.String()
}
