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
			if n < len(v.Retries) {
				rows.add(v.Retries[n].cells(v.Policy)...)
			}
		}
	}
	if len(rows.rows) > 1 {
		rows.print(t.out)
		fmt.Fprintln(t.out)
	}
	for _, v := range views {
		if v.more > 0 {
			fmt.Fprintf(t.out, "%s has %d more retries; -retries %d shows them.\n\n", v.Policy, v.more, v.more+len(v.Retries))
		}
		if v.NeverGrows {
			fmt.Fprintf(t.out, "The delay of %s never grows.\n\n", v.Policy)
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
		strconv.Itoa(s.Retry), policy, exact(s.Delay),
		exact(s.Wait.Min), about(s.Wait.Mean), exact(s.Wait.Max),
		exact(s.Total.Min), about(s.Total.Mean), exact(s.Total.Max),
	}
}

// summary returns the row of a policy.
func (v view) summary() []string {
	worst := "no limit"
	if v.Worst != nil {
		worst = exact(*v.Worst)
		if !v.TimedAttempts {
			worst += " + attempts"
		}
	}
	cells := []string{v.Policy, v.Attempts.String(), worst}
	if v.Within != nil {
		cells = append(cells, v.Within.String(), strconv.Itoa(v.Within.Mean))
	}
	return cells
}

// String returns one number, or the smallest and the largest.
func (c count) String() string {
	most := strconv.Itoa(c.Most)
	if c.More {
		most = "no limit"
	}
	if c.Least == c.Most {
		return most
	}
	return strconv.Itoa(c.Least) + " to " + most
}

// exact formats a duration with six digits. The longest wait below 100ms is
// 99.999999ms, and is shown as 100ms.
func exact(s seconds) string { return digits(s, 6) }

// about formats a mean with three digits. Means are no more exact.
func about(s seconds) string { return digits(s, 3) }

// digits formats a duration with n digits.
func digits(s seconds, n int) string {
	d := time.Duration(s)
	if d <= 0 {
		return "0s"
	}
	unit := math.Pow(10, math.Floor(math.Log10(float64(d)))-float64(n-1))
	if unit > 1 {
		d = d.Round(time.Duration(unit))
	}
	return d.String()
}
