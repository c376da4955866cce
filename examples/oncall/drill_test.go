//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test reads what the person on call can read, and knows what is true. A
// busy machine may spoil one drill, but not three.
func TestPageLogsAndMetricsNameEachTroubleAndRetriesAreSwitched(t *testing.T) {
	for try := 1; ; try++ {
		problems := runDrill(t)
		if len(problems) == 0 || t.Failed() {
			return
		}
		t.Logf("drill %d:\n%s", try, strings.Join(problems, "\n"))
		if try == 3 {
			t.FailNow()
		}
	}
}

// truth is what the test knows of a drill.
type truth struct {
	*drill
	trouble      map[string]string    // by host
	since, until map[string]time.Time // by host
	off, on      period               // of the person's changes

	problems []string
}

// problem notes what is wrong, perhaps only because the machine is busy.
func (tr *truth) problem(format string, args ...any) {
	tr.problems = append(tr.problems, fmt.Sprintf(format, args...))
}

// runDrill runs a drill. It fails the test if something is wrong that does not
// depend on the machine, and returns what else is wrong.
func runDrill(t *testing.T) []string {
	d, err := start(t.TempDir())
	must(t, err)
	defer d.close()
	d.requireATokenToSwitch(t)
	must(t, d.runSteps(t.Context(), t.Output(), 21*time.Second))
	seen, err := d.finish()
	must(t, err)

	end := time.Now()
	tr := &truth{
		drill:   d,
		trouble: map[string]string{slowHost: slow, throttledHost: throttled, dyingHost: down},
		since:   map[string]time.Time{slowHost: d.happened[becomesSlow].began, throttledHost: d.happened[throttles].began, dyingHost: d.happened[dies].began},
		until:   map[string]time.Time{slowHost: end, throttledHost: end, dyingHost: d.happened[startsAgain].ended},
		off:     d.happened[turnedOff],
		on:      d.happened[turnedOn],
	}
	tr.checkEachMoment(seen)
	tr.check(t, seen)
	for _, process := range seen {
		tr.checkCircuit(process.log)
		checkRefusals(t, process.latest())
		tr.checkOverrides(t, process.snapshots)
		checkChanges(t, process.log)
	}
	tr.checkAttempts(t)
	tr.checkBudgets(seen)
	return tr.problems
}

// checkEachMoment checks what the pages and the metrics said all the time: they
// report no trouble before it begins, and no other.
func (tr *truth) checkEachMoment(seen []evidence) {
	for n, s := range seen[0].snapshots {
		until := slices.Clone(seen)
		for i := range until {
			until[i] = evidence{snapshots: seen[i].snapshots[:n+1]}
		}
		for _, source := range sources {
			for _, host := range hosts {
				got := summarize(until, host, source.read).trouble
				if early := tr.since[host].Sub(s.at); got != "" && early > 0 {
					tr.problem("%s: %s is %s %v before that is so", source.name, host, got, early)
				} else if got != "" && got != tr.trouble[host] {
					tr.problem("%s: %s is %s, it is %s", source.name, host, got, tr.trouble[host])
				}
			}
		}
	}
}

// check checks what each source says in the end.
func (tr *truth) check(t *testing.T, seen []evidence) {
	for _, source := range sources {
		late := time.Second / 2 // than the truth
		if source.name == "metrics" {
			late = 2 * time.Second // they are read once a second
		}
		for _, host := range hosts {
			f := summarize(seen, host, source.read)
			tr.checkTrouble(source.name, host, f, late)
			calls, hurt := tr.users.count(host)
			t.Logf("%s: %d of %d calls to %s failed; the users got %d of %d", source.name, f.hurt, f.calls, host, hurt, calls)
			// A log that leaves records out says how many with the next one, if there is one.
			inLog := f.calls == 0 && f.hurt <= hurt && f.hurt >= hurt*9/10
			if !inLog && (f.hurt != hurt || f.calls != calls) {
				t.Errorf("%s: %d of %d calls to %s failed, the users got %d of %d", source.name, f.hurt, f.calls, host, hurt, calls)
			}
			if hurt < calls/20 {
				tr.problem("only %d of %d users were hurt by %s", hurt, calls, host)
			}
		}
	}
}

// checkTrouble checks which trouble a source names, since when, until when, and
// what it says of the circuits.
func (tr *truth) checkTrouble(source, host string, f symptom, late time.Duration) {
	if want := tr.trouble[host]; f.trouble != want {
		tr.problem("%s: %s is %q, want %s", source, host, f.trouble, want)
		return
	}
	// Of five processes with six calls a second each, half notice within a second.
	if since := f.since.Sub(tr.since[host]); since < -10*time.Millisecond || since > attemptTimeout+1500*time.Millisecond+late {
		tr.problem("%s: %s is %s since %v after it began", source, host, f.trouble, since)
	}
	if last := f.last.Sub(tr.until[host]); last > late || host != dyingHost && last < -3*time.Second {
		tr.problem("%s: %s was %s last %v after the end of that", source, host, f.trouble, last)
	}
	if f.open && host != slowHost { // so many calls to that fail that it may be
		tr.problem("%s: a circuit of %s is open in the end", source, host)
	}
	if host == dyingHost && f.opened < processes {
		tr.problem("%s: the circuits of %s opened %d times, want %d", source, host, f.opened, processes)
	}
}

// checkCircuit checks since when a circuit of dyingHost was open, and since when
// it is closed again.
func (tr *truth) checkCircuit(log []record) {
	var opened, closed time.Duration
	for _, r := range log {
		switch {
		case r.Msg != "transition" || hostOf(r.Operation) != dyingHost:
		case r.To == "open" && opened == 0:
			opened = r.Time.Sub(tr.since[dyingHost])
		case r.To == "closed":
			closed = r.Time.Sub(tr.until[dyingHost])
		}
	}
	if opened < time.Second/2 || opened > 4*time.Second {
		tr.problem("a process opened the circuit %v after %s died", opened, dyingHost)
	}
	if closed < 0 || closed > 7*time.Second {
		tr.problem("a process closed the circuit %v after %s was back", closed, dyingHost)
	}
}

// checkRefusals requires that page and metrics agree on what the breaker of
// dyingHost refused.
func checkRefusals(t *testing.T, s snapshot) {
	counted := int(sum(s.metrics, dyingHost, "backoff_breaker_refusals_total"))
	ended := int(sum(s.metrics, dyingHost, "backoff_failures_total", "reason", "open"))
	for _, c := range s.page.Operations {
		if hostOf(c.Endpoint) == dyingHost && (c.Circuit.Refused != counted || counted != ended) {
			t.Errorf("%d calls ended because the circuit was open, the breaker refused %d, on the page %d", ended, counted, c.Circuit.Refused)
		}
	}
}

// checkOverrides requires that page and metrics show the override as long as it
// holds, the page with who, why and until.
func (tr *truth) checkOverrides(t *testing.T, snapshots []snapshot) {
	shown := 0
	for _, s := range snapshots {
		// A snapshot of all processes takes some time.
		during := s.at.After(tr.off.ended) && s.at.Before(tr.on.began.Add(-time.Second))
		outside := s.at.Before(tr.off.began.Add(-time.Second)) || s.at.After(tr.on.ended)
		all, counted := s.page.Controls.Overrides, 0.
		for _, m := range s.metrics {
			if m.name == "backoff_overrides" && m.labels["what"] == "retries" && m.labels["name"] == nameOf(slowHost) {
				counted += m.value
			}
		}
		switch {
		case outside && (len(all) != 0 || counted != 0):
			t.Errorf("no override holds, the metrics have %v, the page shows %+v", counted, all)
		case during && (len(all) != 1 || counted != 1):
			t.Errorf("an override holds, the metrics have %v, the page shows %+v", counted, all)
		case during:
			shown++
			o := all[0]
			rest := time.UnixMilli(o.Until).Sub(tr.off.began)
			if o.Text != "retries of search: off" || o.Who != person || o.Why != "it is overloaded" || rest < 29*time.Minute || rest > 31*time.Minute {
				t.Errorf("the page shows %+v, which ends in %v", o, rest)
			}
		}
	}
	if shown == 0 {
		tr.problem("no page was read while the override held")
	}
}

// checkChanges requires that a log has the two changes, with who and why.
func checkChanges(t *testing.T, log []record) {
	var got string
	for _, r := range log {
		if c := r.Control; c.Change != "" {
			got += fmt.Sprintf("%s %s of %s by %s: %s\n", c.Change, c.What, c.Name, c.Who, c.Why)
		}
	}
	want := "set retries of search by ada: it is overloaded\ncleared retries of search by ada: they were not the cause\n"
	if got != want {
		t.Errorf("the log of a process has the changes\n%swant\n%s", got, want)
	}
}

// checkAttempts checks by the counts of the upstreams: while retries to slowHost
// were off, no call made a second attempt there, and others did; before, calls to
// it did too.
func (tr *truth) checkAttempts(t *testing.T) {
	for _, part := range []struct {
		name        string
		host        string
		after, till time.Time
		retried     bool
	}{
		{"before", slowHost, tr.since[slowHost], tr.off.began, true},
		{"while off", slowHost, tr.off.ended, tr.on.began, false},
		{"while off", throttledHost, tr.off.ended, tr.on.began, true},
	} {
		text, err := get("http://" + tr.upstreams[part.host].address + "/attempts")
		must(t, err)
		var attempts map[string]int
		must(t, json.Unmarshal(text, &attempts))
		calls, made, retried := 0, 0, 0
		for _, r := range tr.users.done() {
			if r.host == part.host && r.began.After(part.after) && r.ended.Before(part.till) {
				calls++
				made += attempts[r.id]
				if attempts[r.id] > 1 {
					retried++
				}
			}
		}
		t.Logf("%s: %s got %d attempts of %d calls, %d of which were retried", part.name, part.host, made, calls, retried)
		switch {
		case calls < 30:
			tr.problem("%s: only %d calls to %s", part.name, calls, part.host)
		case part.retried && retried == 0:
			tr.problem("%s: no call to %s was retried", part.name, part.host)
		case !part.retried && retried > 0:
			t.Errorf("%s: %d of %d calls to %s were retried", part.name, retried, calls, part.host)
		case !part.retried && made < calls*9/10:
			tr.problem("%s: %d attempts of %d calls to %s", part.name, made, calls, part.host)
		}
	}
}

// checkBudgets checks by the logs that the budgets of slowHost decided on retries
// again once they were switched on, and not before. The host is so slow that they
// allow few retries, or none.
func (tr *truth) checkBudgets(seen []evidence) {
	during, after := 0, 0
	for _, process := range seen {
		for _, r := range process.log {
			if hostOf(r.Endpoint) != slowHost || r.Reason != "budget" {
				continue
			}
			switch {
			case r.Time.After(tr.on.ended):
				after++
			case r.Time.After(tr.off.ended.Add(time.Second)) && r.Time.Before(tr.on.began):
				during++
			}
		}
	}
	if after == 0 || during > 0 {
		tr.problem("the budgets of %s refused %d retries while they were off, and %d after", slowHost, during, after)
	}
}

// requireATokenToSwitch requires that every process refuses a request without the
// token of a known person.
func (d *drill) requireATokenToSwitch(t *testing.T) {
	for _, p := range d.services {
		for _, c := range []struct{ who, token string }{{person, ""}, {person, "guess"}, {person, d.token[1:]}, {"bob", d.token}, {"bob", ""}, {"", ""}} {
			status, text, err := post(p, c.who, c.token, retriesOff)
			if err != nil || status != http.StatusForbidden {
				t.Errorf("with the token %q of %q: %d %s %v, want 403", c.token, c.who, status, text, err)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
