//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The test reads what the person on call can read, and knows what is true. A
// busy machine may spoil one drill, but not three.
func TestPageLogsAndMetricsNameEachTroubleAndRetriesAreSwitched(t *testing.T) {
	for try := 1; ; try++ {
		problems := rehearse(t)
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
	trouble map[string]string    // by host
	since   map[string]time.Time // by host
	until   map[string]time.Time // of those that are well again
	off, on [2]time.Time         // retries to slowHost: before and after the switch
	end     time.Time

	problems []string
}

// doubt notes what is wrong, perhaps only because the machine is busy.
func (tr *truth) doubt(format string, args ...any) {
	tr.problems = append(tr.problems, fmt.Sprintf(format, args...))
}

// rehearse runs a drill. It fails the test if something is wrong that does not
// depend on the machine, and returns what else is wrong.
func rehearse(t *testing.T) []string {
	d, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	tr := &truth{
		trouble: map[string]string{slowHost: slow, throttledHost: throttled, dyingHost: down},
		since:   make(map[string]time.Time),
		until:   make(map[string]time.Time),
	}
	d.play21s(t, tr)
	d.settle()
	tr.end = time.Now()
	must(t, d.watch.look())

	looks := d.watch.all()
	logs, err := d.readLogs()
	must(t, err)
	tr.judgeEachMoment(looks)
	tr.judge(t, d, "the page", readPages(looks[len(looks)-1]), time.Second/2)
	tr.judge(t, d, "the logs", readRecords(logs), time.Second/2)
	tr.judge(t, d, "the metrics", readScrapes(looks), 2*time.Second)
	tr.judgeCircuits(logs)
	judgeRefusals(t, looks[len(looks)-1])
	tr.judgeOverrides(t, looks)
	judgeChanges(t, logs)
	tr.judgeAttempts(t, d)
	return tr.problems
}

// play21s makes everything happen, and notes when.
func (d *drill) play21s(t *testing.T, tr *truth) {
	wait := func(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }
	wait(3)
	tr.since[slowHost] = time.Now()
	must(t, d.upstreams[slowHost].order(slow))
	wait(3)
	d.requireATokenToSwitch(t)
	tr.off[0] = time.Now()
	must(t, d.change(retriesOff(slowHost, "it is overloaded")))
	tr.off[1] = time.Now()
	wait(1)
	tr.since[throttledHost] = time.Now()
	must(t, d.upstreams[throttledHost].order(throttled))
	wait(2.5)
	tr.since[dyingHost] = time.Now()
	d.upstreams[dyingHost].kill()
	wait(2.5)
	tr.on[0] = time.Now()
	must(t, d.change(retriesOn(slowHost, "they were not the cause")))
	tr.on[1] = time.Now()
	wait(1.5)
	must(t, d.restart(dyingHost))
	tr.until[dyingHost] = time.Now()
	wait(7.5) // the circuits open for up to 6 s
}

// judgeEachMoment judges what the pages and the metrics said all the time: they
// blame no upstream that is well, and each for what it has.
func (tr *truth) judgeEachMoment(looks []look) {
	for i, l := range looks {
		for source, all := range map[string][]finding{"the page": readPages(l), "the metrics": readScrapes(looks[:i+1])} {
			for _, f := range all {
				if f.trouble == "" {
					continue
				}
				if age := l.at.Sub(tr.since[f.host]); age < 0 {
					tr.doubt("%s says that %s is %s %v before that is so", source, f.host, f.trouble, -age)
				} else if f.trouble != tr.trouble[f.host] {
					tr.doubt("%s says that %s is %s, it is %s", source, f.host, f.trouble, tr.trouble[f.host])
				}
			}
		}
	}
}

// judge judges what a source says in the end, whose moments are known within
// late.
func (tr *truth) judge(t *testing.T, d *drill, source string, all []finding, late time.Duration) {
	for _, f := range all {
		if want := tr.trouble[f.host]; f.trouble != want {
			tr.doubt("%s says that %s is %q, it is %s", source, f.host, f.trouble, want)
			continue
		}
		// Of five processes with six calls a second each, half notice within a second.
		since := f.since.Sub(tr.since[f.host])
		if since < -10*time.Millisecond || since > attemptTimeout+1500*time.Millisecond+late {
			tr.doubt("%s says that %s is %s %v after it began", source, f.host, f.trouble, since)
		}
		until, over := tr.until[f.host]
		if !over {
			until = tr.end
		}
		if last := f.last.Sub(until); last > late || !over && last < -3*time.Second {
			tr.doubt("%s says that %s was %s last %v after the end of that", source, f.host, f.trouble, last)
		}
		calls, hurt := d.users.tally(f.host)
		t.Logf("%s: %s is %s since %v after that began: %d of %d calls failed; the users got %d of %d",
			source, f.host, f.trouble, since, f.hurt, f.calls, hurt, calls)
		// A log that leaves records out says how many with the next one, if there is one.
		inLog := f.calls == 0 && f.hurt <= hurt && f.hurt >= hurt*9/10
		if !inLog && (f.hurt != hurt || f.calls != calls) {
			t.Errorf("%s says that %d of %d calls to %s failed, the users got %d of %d", source, f.hurt, f.calls, f.host, hurt, calls)
		}
		if share(hurt, calls) < 5 {
			tr.doubt("only %d of %d users were hurt by %s", hurt, calls, f.host)
		}
		if f.open && f.host != slowHost { // so many calls to that fail that it may be
			tr.doubt("%s says that a circuit of %s is open in the end", source, f.host)
		}
		if f.host == dyingHost && f.opened < processes {
			tr.doubt("%s says that the circuits of %s opened %d times, want %d", source, f.host, f.opened, processes)
		}
	}
}

// judgeCircuits judges since when the circuits of dyingHost were open, and since
// when they are closed again.
func (tr *truth) judgeCircuits(logs [][]record) {
	for i, log := range logs {
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
			tr.doubt("process %d opened the circuit %v after %s died", i+1, opened, dyingHost)
		}
		if closed < 0 || closed > 7*time.Second {
			tr.doubt("process %d closed the circuit %v after %s was back", i+1, closed, dyingHost)
		}
	}
}

// judgeRefusals requires that a page and the metrics agree on what the breaker of
// dyingHost refused.
func judgeRefusals(t *testing.T, last look) {
	for i, p := range last.pages {
		counted := int(sum(last.metrics[i], dyingHost, "backoff_breaker_refusals_total"))
		ended := int(sum(last.metrics[i], dyingHost, "backoff_failures_total", "reason", "open"))
		for _, c := range p.Operations {
			if hostOf(c.Endpoint) == dyingHost && (c.Circuit.Refused != counted || counted != ended) {
				t.Errorf("process %d: %d calls ended because the circuit was open, the breaker refused %d, on the page %d", i+1, ended, counted, c.Circuit.Refused)
			}
		}
	}
}

// judgeOverrides requires that the pages show the override with who, why and
// until, as long as it holds, and that the metrics have it.
func (tr *truth) judgeOverrides(t *testing.T, looks []look) {
	shown := 0
	for _, l := range looks {
		// A look takes some time.
		during := l.at.After(tr.off[1]) && l.at.Before(tr.on[0].Add(-time.Second))
		outside := l.at.Before(tr.off[0].Add(-time.Second)) || l.at.After(tr.on[1])
		for process, p := range l.pages {
			all, counted := p.Controls.Overrides, 0.
			for _, s := range l.metrics[process] {
				if s.name == "backoff_overrides" && s.labels["what"] == "retries" && s.labels["name"] == nameOf(slowHost) {
					counted += s.value
				}
			}
			if counted != 0 && outside || counted != 1 && during {
				t.Errorf("the metrics have %v overrides", counted)
			}
			switch {
			case outside && len(all) != 0:
				t.Errorf("the page shows an override that does not hold: %+v", all)
			case during && len(all) != 1:
				t.Errorf("the page shows %d overrides, want one", len(all))
			case during:
				shown++
				o := all[0]
				rest := time.UnixMilli(o.Until).Sub(tr.off[0])
				if o.Text != "retries of search: off" || o.Who != person || o.Why != "it is overloaded" || rest < 29*time.Minute || rest > 31*time.Minute {
					t.Errorf("the page shows %+v, which ends in %v", o, rest)
				}
			}
		}
	}
	if shown < processes {
		tr.doubt("no page was looked at while the override held")
	}
}

// judgeChanges requires that each log has the two changes, with who and why.
func judgeChanges(t *testing.T, logs [][]record) {
	for i, log := range logs {
		var got string
		for _, r := range log {
			if c := r.Control; c.Change != "" {
				got += fmt.Sprintf("%s %s of %s by %s: %s\n", c.Change, c.What, c.Name, c.Who, c.Why)
			}
		}
		want := "set retries of search by ada: it is overloaded\ncleared retries of search by ada: they were not the cause\n"
		if got != want {
			t.Errorf("the log of process %d has the changes\n%swant\n%s", i+1, got, want)
		}
	}
}

// judgeAttempts judges by the counts of the upstreams: while retries to slowHost
// were off, no call made a second attempt there, and others did; before and
// after, calls to it did as well.
func (tr *truth) judgeAttempts(t *testing.T, d *drill) {
	for _, part := range []struct {
		name        string
		host        string
		after, till time.Time
		retried     bool
	}{
		{"before", slowHost, tr.since[slowHost], tr.off[0], true},
		{"while off", slowHost, tr.off[1], tr.on[0], false},
		{"while off", throttledHost, tr.off[1], tr.on[0], true},
		{"after", slowHost, tr.on[1], tr.end, true},
	} {
		attempts := d.attemptsAt(t, part.host)
		calls, made, retried := 0, 0, 0
		for _, r := range d.users.answered() {
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
			tr.doubt("%s: only %d calls to %s", part.name, calls, part.host)
		case part.retried && retried == 0:
			tr.doubt("%s: no call to %s was retried", part.name, part.host)
		case !part.retried && retried > 0:
			t.Errorf("%s: %d of %d calls to %s were retried", part.name, retried, calls, part.host)
		case !part.retried && made < calls*9/10:
			tr.doubt("%s: %d attempts of %d calls to %s", part.name, made, calls, part.host)
		}
	}
}

// requireATokenToSwitch requires that a request without the token is refused, in
// every process.
func (d *drill) requireATokenToSwitch(t *testing.T) {
	for _, p := range d.services {
		for _, token := range []string{"", "guess", d.token[1:]} {
			status, text, err := post("http://"+p.address+"/debug/control", token, retriesOff(slowHost, "a guess"))
			if err != nil || status != http.StatusForbidden {
				t.Errorf("with the token %q: %d %s %v, want 403", token, status, text, err)
			}
		}
	}
}

// attemptsAt returns what an upstream counted.
func (d *drill) attemptsAt(t *testing.T, host string) (attempts map[string]int) {
	t.Helper()
	text, err := get("http://" + d.upstreams[host].address + "/attempts")
	must(t, err)
	must(t, json.Unmarshal(text, &attempts))
	return attempts
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
