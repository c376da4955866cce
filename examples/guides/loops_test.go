package guides

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

// The loops of the documents. Their bodies are there as they are here, with a
// policy of their own before them.

func rangeLoop(ctx context.Context, policy backoff.Policy, save func(context.Context) error) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		err := save(ctx)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

func valueLoop(ctx context.Context, policy backoff.Policy, load func(context.Context) (string, error)) (string, error) {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		v, err := load(ctx)
		if err == nil {
			return v, nil // leaving the loop without Fail means success
		}
		fmt.Printf("attempt %d: %v\n", r.Attempt(), err)
		r.Fail(err) // at the end of its body the loop waits, or ends as Do would
	}
	return "", r.Err()
}

func watchLoop(ctx context.Context, policy backoff.Policy, fetch func(context.Context) (string, error), handle func(string)) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		for {
			page, err := fetch(ctx)
			if err != nil {
				r.Fail(backoff.OfClass(err, backoff.ClassRetryable))
				break
			}
			r.Progress()
			handle(page)
		}
	}
	return r.Err()
}

func hookLoop(ctx context.Context, policy backoff.Policy, save func(context.Context) error, mayRetry func(error, time.Duration) bool) error {
	r := policy.Start(ctx)
	ctx, ok := r.Begin(0) // the first attempt
	for ok {
		err := save(ctx)
		wait, again := r.Retry(err)
		if again && !mayRetry(err, wait) {
			return err
		}
		ctx, ok = r.Begin(wait)
	}
	return r.Err() // nil after a success
}

func sleepLoop(ctx context.Context, policy backoff.Policy, save func(context.Context) error, sleep func(time.Duration)) error {
	r := policy.Start(ctx)
	ctx, ok := r.Begin(0)
	for ok {
		err := save(ctx)
		wait, again := r.Retry(err)
		if again {
			sleep(wait)
		}
		ctx, ok = r.Begin(0)
	}
	return r.Err() // nil after a success
}

func valueLoopOfRun(ctx context.Context, policy backoff.Policy, fetch func(context.Context) (string, error)) (zero string, _ error) {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		v, err := fetch(ctx)
		if err == nil {
			return v, nil
		}
		r.Fail(err)
	}
	return zero, r.Err()
}

var errPart = errors.New("a part was refused")

func bulkLoop(ctx context.Context, policy backoff.Policy, items []string, bulk func(context.Context, []string) ([]string, error)) ([]string, error) {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		refused, err := bulk(ctx, items)
		switch {
		case err != nil: // nobody knows what was taken: all of it again
		case len(refused) == 0:
			return nil, nil
		default:
			if len(refused) < len(items) {
				r.Progress() // attempts, waits and MaxElapsed begin again
			}
			items, err = refused, backoff.OfClass(errPart, backoff.ClassThrottled) // only these again
		}
		r.Fail(err)
	}
	return items, r.Err()
}

func loggingLoopOfRun(ctx context.Context, policy backoff.Policy, save func(context.Context) error) error {
	r := policy.Start(ctx)
	ctx, ok := r.Begin(0)
	for ok {
		var wait time.Duration
		if wait, ok = r.Retry(save(ctx)); ok {
			log.Print("retry in ", wait)
			ctx, ok = r.Begin(wait)
		}
	}
	return r.Err()
}

type operation = func(context.Context) error

// loops are the functions above, and how the test calls them.
var loops = []struct {
	loop any
	run  func(context.Context, backoff.Policy, operation) error
}{
	{rangeLoop, rangeLoop},
	{valueLoop, func(ctx context.Context, p backoff.Policy, op operation) error {
		_, err := valueLoop(ctx, p, valued(op))
		return err
	}},
	{watchLoop, func(ctx context.Context, p backoff.Policy, op operation) error {
		return watchLoop(ctx, p, valued(op), func(string) {})
	}},
	{hookLoop, func(ctx context.Context, p backoff.Policy, op operation) error {
		return hookLoop(ctx, p, op, func(error, time.Duration) bool { return true })
	}},
	{sleepLoop, func(ctx context.Context, p backoff.Policy, op operation) error {
		return sleepLoop(ctx, p, op, time.Sleep)
	}},
	{valueLoopOfRun, func(ctx context.Context, p backoff.Policy, op operation) error {
		_, err := valueLoopOfRun(ctx, p, valued(op))
		return err
	}},
	{bulkLoop, func(ctx context.Context, p backoff.Policy, op operation) error {
		_, err := bulkLoop(ctx, p, []string{"a"}, func(ctx context.Context, _ []string) ([]string, error) { return nil, op(ctx) })
		return err
	}},
	{loggingLoopOfRun, loggingLoopOfRun},
}

func valued(op operation) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return "", op(ctx) }
}

// Each loop of a document is one of those above.
func TestTheSecondAttemptOfADocumentedLoopIsLikeTheFirst(t *testing.T) {
	bodies, used := bodiesOfThisFile(t), map[string]bool{}
	for _, block := range documentedLoops(t) {
		found := false
		for _, l := range loops {
			name := runtime.FuncForPC(reflect.ValueOf(l.loop).Pointer()).Name()
			name = name[strings.LastIndexByte(name, '.')+1:]
			if strings.Contains(block.code, bodies[name]) {
				found, used[name] = true, true
				t.Run(block.where+" "+name, func(t *testing.T) { compareAttempts(t, l.run) })
			}
		}
		if !found {
			t.Errorf("%s: no test compares its attempts:\n%s", block.where, block.code)
		}
	}
	if len(used) != len(loops) {
		t.Errorf("of these loops only %v are in a document", used)
	}
}

func compareAttempts(t *testing.T, run func(context.Context, backoff.Policy, operation) error) {
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Constant(time.Second),
		Jitter:      backoff.NoJitter,
		Idempotency: backoff.Keyed,

		AttemptTimeout: 10 * time.Second,
	}
	synctest.Test(t, func(t *testing.T) {
		var s downServer
		if err := run(t.Context(), policy, s.ask); !errors.Is(err, backoff.ErrExhausted) || !errors.Is(err, errDown) {
			t.Errorf("the error is %v", err)
		}
		first := request{key: s.got[0].key, left: policy.AttemptTimeout}
		if len(s.got) != 3 || first.key == "" || s.got[0] != first || s.got[1] != first || s.got[2] != first {
			t.Errorf("the server got %v", s.got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := downServer{takes: 3 * time.Second}
		policy.MaxElapsed = 5 * time.Second // from the start of the first attempt: the second one begins after 4 s
		_ = run(t.Context(), policy, s.ask)
		if len(s.got) != 2 || s.got[0].left != 5*time.Second || s.got[1].left != time.Second {
			t.Errorf("the server got %v", s.got)
		}
	})
}

// A downServer answers each request with 503.
type downServer struct {
	takes time.Duration
	got   []request
}

// request is what the server sees of an attempt: its key, and when its time ends.
type request struct {
	key  string
	left time.Duration
}

func (s *downServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deadline, _ := r.Context().Deadline()
	s.got = append(s.got, request{r.Header.Get("Idempotency-Key"), time.Until(deadline)})
	time.Sleep(s.takes)
	w.WriteHeader(http.StatusServiceUnavailable)
}

// ask is the operation of the loops: it sends one request.
func (s *downServer) ask(ctx context.Context) error {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	r.Header.Set("Idempotency-Key", backoff.IdempotencyKey(ctx))
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusOK {
		return errDown
	}
	return nil
}

// A documentedLoop is a block of code with a loop, and its page and heading.
type documentedLoop struct{ where, code string }

var (
	headed  = regexp.MustCompile("(?ms)^#+ ([^\n]*)$|^```go[^\n]*\n(.*?)^```$")
	comment = regexp.MustCompile(`(?m)^//\t?`)
	ofRun   = regexp.MustCompile(`(?ms)^//\tr := policy\.Start.*?^//\treturn [^\n]*$`)
)

func documentedLoops(t *testing.T) (all []documentedLoop) {
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../cmd/backoffvet/docs/moving/*.md"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, some...)
	}
	for _, page := range pages {
		heading := ""
		for _, m := range headed.FindAllStringSubmatch(read(t, page), -1) {
			if m[1] != "" {
				heading = m[1]
			} else if strings.Contains(m[2], ".Start(") {
				all = append(all, documentedLoop{filepath.Base(page) + "#" + heading, m[2]})
			}
		}
	}
	for _, loop := range ofRun.FindAllString(read(t, "../../run.go"), -1) {
		all = append(all, documentedLoop{"run.go", comment.ReplaceAllString(loop, "")})
	}
	return all
}

// bodiesOfThisFile returns the body of each function, as a document has it.
func bodiesOfThisFile(t *testing.T) map[string]string {
	text, all := read(t, "loops_test.go"), map[string]string{}
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			body := text[f.Body.Lbrace : f.Body.Rbrace-1]
			all[f.Name.Name] = strings.TrimSpace(regexp.MustCompile(`(?m)^\t`).ReplaceAllString(body, ""))
		}
	}
	return all
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
