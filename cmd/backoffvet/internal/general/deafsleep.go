package general

import (
	"fmt"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var deafSleep = ruleOfLoops("deafsleep",
	"report retries that sleep although a context in scope may end", deafSleeps)

// shortest is the shortest sleep that somebody who waits for the end of a program notices.
const shortest = 100 * time.Millisecond

func deafSleeps(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry && l.Kind != loop.Poll {
		return
	}
	ctx := l.Context(p.Pkg)
	if ctx == nil || l.Outlives(ctx) {
		return
	}
	for _, w := range l.Waits {
		if d, ok := w.Constant(p.TypesInfo); w.Deaf() && (!ok || d >= shortest) {
			p.Report(w.Node, fmt.Sprintf("this retry sleeps on when %s ends: wait in a select for %s.Done(), too",
				ctx.Name(), ctx.Name()))
		}
	}
}
