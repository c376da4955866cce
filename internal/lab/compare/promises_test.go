package compare

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
)

// A promise is what a test of another library holds that library to, put to
// this one. Nothing of the test is here but its place.
type promise struct {
	test  string // file and name of their test
	name  string // what this library does
	holds func(*testing.T)

	// Where this library does something else on purpose: what they promise, and
	// the reason. Both stand in the document.
	theirs, why string
}

// suites are the libraries whose tests of retries, budgets and clients are
// taken, with the files in which these are.
var suites = []struct {
	column   string
	files    []string
	promises []promise
}{
	{"go-retryablehttp", []string{"client_test.go", "roundtripper_test.go"}, retryableHTTPPromises},
	{"failsafe-go", []string{
		"*_test.go", "retrypolicy/*_test.go", "budget/*_test.go", "policy/*_test.go", "failsafehttp/*_test.go",
		"test/*_test.go", "test/issues/*_test.go", "examples/*_test.go",
	}, failsafePromises},
	{"cenkalti", []string{"*_test.go"}, cenkaltiPromises},
	{"avast", []string{"*_test.go"}, avastPromises},
}

// All of them hold, each in a bubble of its own, with virtual time.
func TestPromisesOfOtherLibraries(t *testing.T) {
	for _, suite := range suites {
		t.Run(suite.column, func(t *testing.T) {
			for _, p := range suite.promises {
				t.Run(p.name, func(t *testing.T) { synctest.Test(t, p.holds) })
			}
		})
	}
}

// The document explains each difference.
func TestDifferencesFromOtherLibraries(t *testing.T) {
	lines := []string{"| Their test | They promise | Here | Why |", "|---|---|---|---|"}
	for _, suite := range suites {
		for _, p := range suite.promises {
			if p.theirs != "" {
				lines = append(lines, fmt.Sprintf("| %s, %s | %s | %s | %s |", suite.column, p.test, p.theirs, p.name, p.why))
			}
		}
	}
	docpagetest.Table(t, document, "differences", lines, *update)
}

// leftOut lists the tests that have no promise here, with the reason.
const leftOut = "testdata/left_out.txt"

func TestEveryTestOfTheSuitesIsTakenOrLeftOut(t *testing.T) {
	listed := docpagetest.Read(t, leftOut)
	for _, suite := range suites {
		theirs, accounted := testsOf(t, suite.column, suite.files), map[string]bool{}
		for _, match := range regexp.MustCompile(`(?m)^`+suite.column+` (\S+ \w+): .`).FindAllStringSubmatch(listed, -1) {
			accounted[match[1]] = true
		}
		for _, p := range suite.promises {
			accounted[p.test] = true
		}
		for test := range theirs {
			if !accounted[test] {
				t.Errorf("%s: %s has no promise, and is not in %s", suite.column, test, leftOut)
			}
		}
		for test := range accounted {
			if !theirs[test] {
				t.Errorf("%s has no %s", suite.column, test)
			}
		}
	}
}

// testsOf returns the tests in files of a library, each as its file and name.
func testsOf(t *testing.T, column string, files []string) map[string]bool {
	dir, all := sourceOf(t, column), map[string]bool{}
	for _, pattern := range files {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, name := range found {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			inside, err := filepath.Rel(dir, name)
			require.NoError(t, err)
			for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				all[filepath.ToSlash(inside)+" "+string(match[1])] = true
			}
		}
	}
	require.NotEmpty(t, all, column)
	return all
}

// sourceOf returns the directory with the source of a library.
func sourceOf(t *testing.T, column string) string {
	for _, p := range peers {
		if p.column == column {
			out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", p.path).Output()
			require.NoError(t, err, p.path)
			return strings.TrimSpace(string(out))
		}
	}
	t.Fatalf("no library %s", column)
	return ""
}

// A site is a server of net/http that is reached by pipes in memory, so that
// client and server live in virtual time.
type site struct {
	*httptest.Server
	wire     http.Transport // to this server, whatever the address
	refusing atomic.Bool    // whether it refuses connections
	dials    atomic.Int32

	mu  sync.Mutex
	got []received
}

type received struct {
	method, uri, body string
	header            http.Header
	length            int64
}

// serve starts a site that answers in turn, the last answer again and again.
func serve(t *testing.T, answers ...http.HandlerFunc) *site {
	s := unstarted(t, answers...)
	s.Start()
	return s
}

func unstarted(t *testing.T, answers ...http.HandlerFunc) *site {
	pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := new(site)
	s.wire.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		s.dials.Add(1)
		if s.refusing.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return pipes.dial(ctx)
	}
	s.Server = &httptest.Server{Listener: pipes, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[min(s.receive(r), len(answers))-1](w, r)
	})}}
	t.Cleanup(func() {
		s.wire.CloseIdleConnections()
		s.Close()
	})
	return s
}

// receive notes a request, and returns its number.
func (s *site) receive(r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, received{r.Method, r.RequestURI, string(body), r.Header, r.ContentLength})
	return len(s.got)
}

func (s *site) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// client makes up to 4 attempts, a second apart.
func (s *site) client(changes ...func(*backoffhttp.Transport)) *http.Client {
	tr := &backoffhttp.Transport{Base: &s.wire, Policy: steady(4)}
	for _, change := range changes {
		change(tr)
	}
	return &http.Client{Transport: tr}
}

// steady makes up to so many attempts, a second apart.
func steady(attempts int) backoff.Policy {
	return backoff.Policy{MaxAttempts: attempts, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
}

// says answers with a status, a text and a header.
func says(status int, text string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// textOf reads and closes the body of a response.
func textOf(t *testing.T, resp *http.Response) string {
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(text)
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "site.test" }

// silent is a log of a server that nobody reads.
var silent = log.New(io.Discard, "", 0)
