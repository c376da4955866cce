package soak

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/idempotency"
)

// service carries out calls and records which. Now and then it fails, as
// servers do.
type service struct {
	http     *http.Server
	addr     string
	requests atomic.Int64

	done  ledger // calls that had their effect
	twice ledger // those that had it again
}

// records is the number of keyed calls that the service remembers: those of
// several seconds, while a call takes milliseconds.
const records = 16384

func startService(calls int) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{addr: l.Addr().String(), done: newLedger(calls), twice: newLedger(calls)}
	store := &idempotency.MemoryStore{MaxRecords: records, Keep: time.Nanosecond}
	once := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{Store: store})
	fill(once)
	mux := http.NewServeMux()
	mux.Handle(keyed.path(), once(http.HandlerFunc(s.carryOut)))
	mux.HandleFunc("/", s.carryOut)
	s.http = &http.Server{Handler: s.reluctant(mux)}
	go s.http.Serve(l)
	return s, nil
}

// fill fills the store, so that it does not grow during the run.
func fill(once func(http.Handler) http.Handler) {
	h := once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, receipt(0)) }))
	for n := range records {
		req := httptest.NewRequest(http.MethodPost, keyed.path()+"0", strings.NewReader("0"))
		req.Header.Set(backoffhttp.HeaderIdempotencyKey, fmt.Sprintf("%032d", n))
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
}

// missing reports whether the service answers every request of this call with
// 404.
func missing(call int) bool { return call%499 == 498 }

// reluctant refuses some requests and passes on most.
func (s *service) reluctant(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.requests.Add(1)
		switch u := draw(2, n); {
		case u < 0.00001 && r.Method == http.MethodPut:
			refuse(w, http.StatusServiceUnavailable, "Retry-After", "1")
		case u < 0.0005 && r.Method == http.MethodPut:
			refuse(w, http.StatusServiceUnavailable, "Retry-After", "86400")
		case u < 0.005:
			refuse(w, http.StatusServiceUnavailable, "Retry-After-Ms", "2")
		case u < 0.007:
			refuse(w, http.StatusTooManyRequests, "Retry-After-Ms", "1")
		case u < 0.008:
			refuse(w, http.StatusServiceUnavailable, "X-Should-Retry", "false")
		case u < 0.01:
			refuse(w, http.StatusBadGateway, "Cache-Control", "no-store")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, status int, header, value string) {
	w.Header().Set(header, value)
	w.WriteHeader(status)
}

// carryOut carries out the request; a GET has no effect.
func (s *service) carryOut(w http.ResponseWriter, r *http.Request) {
	_, number, _ := strings.Cut(r.URL.Path[1:], "/")
	call, err := strconv.Atoi(number)
	if err != nil || call >= 64*len(s.done) {
		http.Error(w, "no call", http.StatusBadRequest)
		return
	}
	if body, err := io.ReadAll(r.Body); err != nil || r.Method != http.MethodGet && string(body) != number {
		http.Error(w, "not what was sent", http.StatusBadRequest)
		return
	}
	if missing(call) {
		http.NotFound(w, r)
		return
	}
	if s.done.add(call) {
		s.twice.add(call)
	}
	io.WriteString(w, receipt(call))
}

// receipt is the answer to a call. It is long enough to be cut in the middle.
func receipt(call int) string { return fmt.Sprintf("%0300d", call) }

func (s *service) close() { s.http.Close() }

// part is the number of bytes of an answer that pass before it is cut: its
// header and some of its body.
const part = 200

// shares are the faults of the network, and how probable they are. A response that
// hangs does so until the client gives up.
var shares = []struct {
	fault       fault.Fault
	probability float64
}{
	{fault.Reset(), 0.005},
	{fault.Lost(), 0.004},
	{fault.Cut(part), 0.004},
	{fault.Slow(3 * time.Millisecond), 0.003},
	{fault.Hang(), 0.0001},
}

// Once in as many exchanges as between says, the service cannot be reached for
// as long as outage says.
const (
	between = 10_000
	outage  = 40 * time.Millisecond
)

// network chooses the faults of exchanges, and counts them and the requests that do
// not arrive.
type network struct {
	*fault.Proxy
	seed                       uint64
	down                       time.Time // until then
	exchanges, failed, stopped atomic.Int64
}

func newNetwork(target string, seed uint64) (*network, error) {
	n := &network{seed: seed}
	proxy, err := (&fault.Injector{Plan: n.plan}).Proxy(target)
	n.Proxy = proxy
	return n, err
}

func (n *network) plan(a fault.Attempt) fault.Fault {
	now := time.Now()
	if a.Number%between == between/2 {
		n.down = now.Add(outage)
	}
	f := n.random(a.Number)
	if now.Before(n.down) {
		f = fault.Reset()
	}
	n.exchanges.Add(1)
	if f != fault.OK() {
		n.failed.Add(1)
	}
	if f == fault.Reset() {
		n.stopped.Add(1)
	}
	return f
}

func (n *network) random(number int) fault.Fault {
	u := draw(n.seed, int64(number))
	for _, s := range shares {
		if u < s.probability {
			return s.fault
		}
		u -= s.probability
	}
	return fault.OK()
}

// draw returns a number in [0,1) that depends on n only.
func draw(seed uint64, n int64) float64 {
	return rand.New(rand.NewPCG(seed, uint64(n))).Float64()
}
