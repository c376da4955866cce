package general

import (
	"go/ast"
	"slices"
	"strings"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var resentPost = ruleOfLoops("resentpost",
	"report requests that are not idempotent, and are sent again without a key", resentPosts)

func resentPosts(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry {
		return
	}
	for _, a := range l.Attempts {
		r, _, ok := requestSent(p, l, a)
		if ok && remote.HTTP(p.TypesInfo, a.Call) && r.repeats(p) && !hasKey(l) && !onlyUnsent(l) {
			p.Report(a.Call, "a request that is not idempotent is sent again, also where the server has carried it out and "+
				"only the answer was lost: give it an Idempotency-Key, or retry only what was never sent")
		}
	}
}

func hasKey(l *loop.Loop) bool {
	found := false
	ast.Inspect(l.Func.Outer, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		found = found || ok && keys(strings.ToLower(lit.Value))
		name, ok := n.(*ast.Ident)
		found = found || ok && strings.Contains(strings.ToLower(name.Name), "idempoten")
		return !found
	})
	return found
}

func keys(header string) bool {
	return strings.Contains(header, "idempoten") || strings.Contains(header, "request-id")
}

// onlyUnsent reports whether a loop asks for the failures that say that nothing was carried out.
func onlyUnsent(l *loop.Loop) bool {
	return slices.ContainsFunc([]string{"ECONNREFUSED", "StatusTooManyRequests", "StatusUnauthorized"},
		func(name string) bool { return mentions(l.Body, name) })
}
