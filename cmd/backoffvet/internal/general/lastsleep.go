package general

import (
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var lastSleep = ruleOfLoops("lastsleep", "report loops that sleep after their last attempt", lastSleeps)

func lastSleeps(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry && l.Kind != loop.Poll || !l.Bounded() {
		return
	}
	for _, a := range l.Attempts {
		for end := range a.Ends {
			if end.Way == loop.Exhausted && end.Waited && !end.Counted && end.Outcome != loop.Succeeded {
				p.Report(a.Call, "lastsleep")
			}
		}
	}
}
