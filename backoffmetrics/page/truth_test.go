package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/nightly"
)

// A simulated service counts by itself what is called and how that ends, without
// looking at any event.
type simulated struct {
	name    string
	service doerFunc
	own     *backoff.Breaker
	to      *endpoint.Endpoint // nil if a Transport has one
	failing float64            // share of attempts that fail
	hedged  bool               // attempts overlap, and go on when nobody waits for them any more
	retries string             // override of retries, if there may be one

	mu       sync.Mutex
	ends     map[string][]time.Time // of calls, by outcome
	attempts []attempt
	refused  map[string][]time.Time // by breaker
	inFlight int
}

var errDown = backoff.OfClass(errors.New("down"), backoff.ClassRetryable)

// waitingFor is a breaker for whose circuit the policy around it waits.
func waitingFor(breaker doerFunc) doerFunc {
	return func(ctx context.Context, op func(context.Context) error) error {
		err := breaker(ctx, op)
		if errors.Is(err, backoff.ErrOpen) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	}
}

type attempt struct {
	at   time.Time
	took time.Duration
	typ  string // of its error
}

// simulate returns a service with guards in a random order.
func simulate(name string, m *backoffmetrics.Metrics, panel *control.Panel, budget *backoff.RetryBudget, draw *rand.Rand) *simulated {
	s := &simulated{name: name, ends: make(map[string][]time.Time), refused: make(map[string][]time.Time)}
	breaker := func(name string) *backoff.Breaker {
		return &backoff.Breaker{Name: name, Observer: m.Observe, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Duration(1+draw.IntN(20)) * time.Second)}
	}
	policy := backoff.Policy{Name: name, Observer: m.Observe, MaxAttempts: 1 + draw.IntN(4), Schedule: backoff.Exponential{Initial: 50 * time.Millisecond}}
	if draw.IntN(2) == 0 {
		policy.Budget = budget
	}
	if draw.IntN(4) == 0 {
		s.service = s.overHTTP(policy)
		return s
	}
	s.to = &endpoint.Endpoint{Name: "GET " + name}
	s.own = breaker(name)
	other := breaker("beside " + name)
	order := draw.IntN(6)
	now := func() *backoff.Policy { return &policy }
	if draw.IntN(3) == 0 {
		now, s.retries = panel.Policy(policy).Policy, control.On
	}
	retrying := doerFunc(func(ctx context.Context, op func(context.Context) error) error { return now().Do(ctx, op) })
	guarded := func(b *backoff.Breaker) doerFunc {
		service := &guard.Service{Breaker: b, NoBudget: true, FailFast: true}
		return s.counting(b, func(ctx context.Context, op func(context.Context) error) error { return service.Do(ctx, *now(), op) })
	}
	first, second := s.counting(s.own, s.own.Do), s.counting(other, other.Do)
	s.service = [...]doerFunc{
		retrying, guarded(s.own), retrying.around(first), guarded(s.own).around(second), guarded(other), retrying.around(waitingFor(second)),
	}[order].around(countAttempt)
	if s.hedged = draw.IntN(4) == 0; s.hedged {
		hedged := &hedge.Hedge{Name: "hedge of " + name, Observer: m.Observe, Delay: 300 * time.Millisecond}
		s.service = s.service.around(func(ctx context.Context, op func(context.Context) error) error {
			_, err := hedge.Value(ctx, hedged, func(ctx context.Context) (any, error) { return nil, op(ctx) }, nil)
			return err
		})
	}
	return s
}

// overHTTP returns the service behind a Transport, which has a breaker for each
// host. The operation is what the server does.
func (s *simulated) overHTTP(policy backoff.Policy) doerFunc {
	type operation struct{}
	client := &http.Client{Transport: &backoffhttp.Transport{Policy: policy, FailFast: true, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		err := countAttempt(r.Context(), r.Context().Value(operation{}).(func(context.Context) error))
		var status *backoffhttp.StatusError
		refused := errors.As(err, &status)
		if err != nil && !refused {
			return nil, err
		}
		response := &http.Response{StatusCode: 200, Request: r, Header: http.Header{}, Body: http.NoBody}
		if refused {
			response.StatusCode = status.Code
		}
		return response, nil
	})}}
	return func(ctx context.Context, op func(context.Context) error) error {
		request, err := http.NewRequestWithContext(context.WithValue(ctx, operation{}, op), "GET", "http://"+s.name+".example", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			defer response.Body.Close()
			return backoffhttp.Check(response)
		}
		return err
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// attemptsOf counts the attempts of a call.
type attemptsOf struct{ count int }

// countAttempt counts an attempt.
func countAttempt(ctx context.Context, op func(context.Context) error) error {
	ctx.Value(attemptsOf{}).(*attemptsOf).count++
	return op(ctx)
}

// change changes what can be changed while the program runs.
func (s *simulated) change(t *testing.T, panel *control.Panel, draw *rand.Rand) {
	if draw.IntN(4) == 0 {
		s.mu.Lock()
		s.failing = []float64{0, 0, 0.05, 0.3, 1}[draw.IntN(5)]
		s.mu.Unlock()
	}
	if s.own != nil && draw.IntN(8) == 0 {
		s.own.Force([]backoff.BreakerMode{backoff.ModeEnforce, backoff.ModeEnforce, backoff.ModeObserve, backoff.ModeForcedOpen, backoff.ModeForcedClosed}[draw.IntN(5)])
	}
	if s.retries != "" && draw.IntN(4) == 0 {
		s.retries = []string{control.On, control.Off}[draw.IntN(2)]
		require.NoError(t, panel.Set(t.Context(), control.Override{Target: control.Target{What: control.Retries, Name: s.name}, To: s.retries, Who: "ada", Why: "drill"}))
	}
}

// counting counts what a breaker refuses of the calls that it guards.
func (s *simulated) counting(b *backoff.Breaker, guarded doerFunc) doerFunc {
	return func(ctx context.Context, op func(context.Context) error) error {
		called := false
		err := guarded(ctx, func(ctx context.Context) error { called = true; return op(ctx) })
		if !called && errors.Is(err, backoff.ErrOpen) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused[b.Name] = append(s.refused[b.Name], time.Now())
		}
		return err
	}
}

type doerFunc func(context.Context, func(context.Context) error) error

// around returns f around what is within it.
func (f doerFunc) around(inner doerFunc) doerFunc {
	return func(ctx context.Context, op func(context.Context) error) error {
		return f(ctx, func(ctx context.Context) error { return inner(ctx, op) })
	}
}

// call makes a call.
func (s *simulated) call(ctx context.Context, draw *rand.Rand) {
	var mu sync.Mutex // hedges overlap
	attempt := func(context.Context) error {
		mu.Lock()
		took, luck, kind := time.Duration(1e6+draw.ExpFloat64()*2e8), draw.Float64(), draw.IntN(48)
		mu.Unlock()
		return s.attempt(took, luck, kind)
	}
	op := attempt
	if s.to != nil {
		ctx = endpoint.With(ctx, s.to)
		op = func(ctx context.Context) error { return s.to.Do(ctx, attempt) }
	}
	made := new(attemptsOf)
	err := s.service(context.WithValue(ctx, attemptsOf{}, made), op)
	outcome := "failed"
	var gaveUp *backoff.Error
	switch {
	case err == nil && made.count == 1: // it may have waited for its turn, or for a circuit
		outcome = "first"
	case err == nil:
		outcome = "retried"
	case errors.As(err, &gaveUp) && gaveUp.Reason == backoff.ReasonOpen, gaveUp == nil && errors.Is(err, backoff.ErrOpen):
		outcome = "refused"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[outcome] = append(s.ends[outcome], time.Now())
}

// attempt makes an attempt.
func (s *simulated) attempt(took time.Duration, luck float64, kind int) (err error) {
	s.mu.Lock()
	s.inFlight++
	s.mu.Unlock()
	time.Sleep(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	a := attempt{at: time.Now(), took: took}
	if luck < s.failing {
		kinds := []error{errDown, backoff.Permanent(context.Canceled), &backoffhttp.StatusError{Code: 404}, &backoffhttp.StatusError{Code: 503}}
		names := []string{"*errors.errorString", "canceled", "404 Not Found", "503 Service Unavailable"}
		i := min(kind/4, 3)
		if i == 2 && s.to == nil {
			i = 3 // over HTTP it is an answer, and no failure
		}
		err, a.typ = kinds[i], names[i]
	}
	s.attempts = append(s.attempts, a)
	return err
}

// requireCount compares a number with that of the moments after start. The
// window may begin between two things that happen at the same moment.
func requireCount(t *testing.T, moments []time.Time, start time.Time, got int, what ...any) {
	t.Helper()
	least, most := 0, 0
	for _, at := range moments {
		if at.After(start) {
			least++
		}
		if !at.Before(start) {
			most++
		}
	}
	require.GreaterOrEqual(t, got, least, what...)
	require.LessOrEqual(t, got, most, what...)
}

// Every number and every sentence of the page is that of an independent count,
// whatever the traffic, and the numbers fit together.
func TestThePageTellsTheTruth(t *testing.T) {
	for seed := range nightly.Size(uint64(8), 40) {
		t.Log("seed", seed)
		synctest.Test(t, func(t *testing.T) {
			var m backoffmetrics.Metrics
			draw := rand.New(rand.NewPCG(seed, 1))
			budget := new(backoff.RetryBudget)
			m.WatchBudget("shared", budget)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			var services []*simulated
			panel := new(control.Panel)
			h := page.Handler(&m, panel)
			for i := range 4 {
				s := simulate(fmt.Sprint("service", i), &m, panel, budget, draw)
				services = append(services, s)
				for worker := range uint64(3) {
					own := rand.New(rand.NewPCG(seed, 100*uint64(i)+worker))
					all.Go(func() {
						for ctx.Err() == nil {
							s.call(context.Background(), own)
							time.Sleep(time.Duration(own.ExpFloat64() * 5e8))
						}
					})
				}
			}
			for range 25 {
				for _, s := range services {
					s.change(t, panel, draw)
				}
				time.Sleep(time.Duration(draw.ExpFloat64() * 2e10))
				synctest.Wait()
				requireTruth(t, look(t, h), services)
				requireBudget(t, look(t, h), budget)
			}
		})
	}
}

func requireTruth(t *testing.T, d *pageData, services []*simulated) {
	start := time.Now().Add(-time.Duration(math.Round(d.Period.Seconds * 1e9)))
	if strings.HasSuffix(d.Period.Text, ", and nothing was counted before") {
		start = time.Time{}
	}
	for _, s := range services {
		s.require(t, d, start)
	}
}

func (s *simulated) require(t *testing.T, d *pageData, start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := d.card(s.name)
	s.requireCalls(t, c, start, d.Period.Seconds)
	if !s.hedged {
		s.requireAttempts(t, c, start)
	}
	requireSentences(t, d, c)
	s.requireBeginning(t, c)
	s.requireUrgency(t, d, c)
	for _, b := range d.Breakers {
		if moments, ok := s.refused[b.Name]; ok {
			requireCount(t, moments, start, b.Refused, b.Name)
			require.Equal(t, b.Refused > 0, strings.Contains(b.Text, fmt.Sprintf("; refused %d call", b.Refused)), b.Text)
		}
	}
}

func (s *simulated) requireCalls(t *testing.T, c cardData, start time.Time, seconds float64) {
	calls, sum := 0, 0
	for _, o := range c.Outcomes {
		requireCount(t, s.ends[o.Name], start, o.Count, "%s %s: %v, after %v", s.name, o.Name, c.Outcomes, seconds)
		calls += o.Count
		sum += percentOf(t, o.Share)
	}
	require.Equal(t, calls, c.Calls)
	if calls == 0 {
		return
	}
	require.InDelta(t, 100, sum, 2, "%v", c.Outcomes) // each is rounded
	require.InDelta(t, 100*float64(c.outcome("failed")+c.outcome("refused"))/float64(calls), float64(percentOf(t, c.FailedShare)), 1)
	require.InDelta(t, float64(c.Attempts)/float64(calls), c.AttemptsPerCall, 0.0051)
	require.InDelta(t, float64(calls)/seconds, c.CallsPerSecond, 0.0051)
}

// percentOf reads a share.
func percentOf(t *testing.T, share string) int {
	switch share {
	case "less than 1 %":
		return 0
	case "more than 99 %":
		return 100
	}
	n, err := strconv.Atoi(strings.TrimSuffix(share, " %"))
	require.NoError(t, err)
	return n
}

func (s *simulated) requireAttempts(t *testing.T, c cardData, start time.Time) {
	var made []time.Time
	var took []time.Duration
	failed := make(map[string][]time.Time)
	for _, a := range s.attempts {
		made = append(made, a.at)
		if a.at.After(start) {
			took = append(took, a.took)
		}
		if a.typ != "" {
			failed[a.typ] = append(failed[a.typ], a.at)
		}
	}
	requireCount(t, made, start, c.Attempts, s.name)
	shown := make(map[string]int)
	for _, e := range c.Errors {
		shown[e.Type] += e.Count
		require.LessOrEqual(t, e.Since, e.Last)
		require.Contains(t, failed, e.Type)
	}
	for typ, moments := range failed {
		requireCount(t, moments, start, shown[typ], typ)
	}
	if c.Attempting == nil {
		return
	}
	require.Equal(t, s.inFlight, c.Attempting.InFlight)
	requireCount(t, made, start, c.Attempting.Count)
	if slices.Sort(took); len(took) > 0 && len(took) == c.Attempting.Count {
		for q, shown := range map[float64]float64{0.5: c.Attempting.P50, 0.95: c.Attempting.P95, 0.99: c.Attempting.P99} {
			truth := took[max(0, int(math.Ceil(q*float64(len(took))))-1)].Seconds()
			i, _ := slices.BinarySearch(endpoint.Bounds(), truth)
			require.LessOrEqual(t, shown, endpoint.Bounds()[i], "p%v", 100*q)
			require.GreaterOrEqual(t, shown, append([]float64{0}, endpoint.Bounds()...)[i], "p%v", 100*q)
		}
	}
}

var (
	failedCalls = regexp.MustCompile(`(none|\d+) of (?:(\d+) )?calls? failed(?: \(([^)]*)\))?(: [^.]*)?`)
	reasons     = regexp.MustCompile(`(\d+) (because|for)`)
	began       = regexp.MustCompile(`This began (?:less than )?([\d.]+) (\w+) ago\.`)
	rescued     = regexp.MustCompile(`Retries rescued (.*?) of the (\d+) calls? that`)
)

// requireSentences compares the numbers of the sentences with those of the card.
func requireSentences(t *testing.T, d *pageData, c cardData) {
	failures := c.outcome("failed") + c.outcome("refused")
	if found := failedCalls.FindStringSubmatch(c.Text); found != nil && found[1] != "none" {
		require.Equal(t, []string{strconv.Itoa(failures), strconv.Itoa(c.Calls), c.FailedShare}, found[1:4], c.Text)
		sum := 0
		for _, r := range reasons.FindAllStringSubmatch(found[4], -1) {
			n, _ := strconv.Atoi(r[1])
			sum += n
		}
		require.True(t, found[4] == "" || sum == failures, c.Text)
	} else if c.Calls > 0 && !strings.HasPrefix(c.Text, "Retries hide") {
		require.Zero(t, failures, c.Text)
	}
	if found := rescued.FindStringSubmatch(c.Text); found != nil {
		needed, _ := strconv.Atoi(found[2])
		require.InDelta(t, 100*float64(c.outcome("retried"))/float64(needed), float64(percentOf(t, found[1])), 1, c.Text)
	}
	for _, s := range d.Headline.Sentences {
		if s.ID == c.ID && strings.Contains(s.Text, "of its calls failed") {
			require.Contains(t, s.Text, c.FailedShare+" of its calls failed")
		}
	}
}

// requireBeginning compares since when calls fail with those that did. The time
// is rounded.
func (s *simulated) requireBeginning(t *testing.T, c cardData) {
	found := began.FindStringSubmatch(c.Text)
	if found == nil {
		return
	}
	n, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	unit := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "min": time.Minute}[found[2]]
	rounded := 0.5 // at most
	if strings.Contains(found[1], ".") {
		rounded = 0.05
	}
	since := time.Now().Add(-time.Duration((n - rounded) * float64(unit)))
	counts := make(map[string]int)
	for outcome, moments := range s.ends {
		for _, at := range moments {
			if at.After(since) {
				counts[outcome]++
			}
		}
	}
	failed := counts["failed"] + counts["refused"]
	if all := counts["first"] + counts["retried"] + failed; all >= 20 {
		require.GreaterOrEqual(t, 20*failed, all, c.Text)
	}
}

// requireUrgency checks that the headline is urgent while calls fail, and not
// urgent while none does.
func (s *simulated) requireUrgency(t *testing.T, d *pageData, c cardData) {
	failures := c.outcome("failed") + c.outcome("refused")
	if strings.HasPrefix(d.headline(), "Nothing to do.") {
		require.Less(t, 2*failures, max(1, c.Calls), c.Text)
		require.True(t, c.Circuit == nil || c.Circuit.State != "open" && c.Circuit.State != "forced open")
	}
	for _, told := range d.Headline.Sentences {
		if told.ID == c.ID && strings.Contains(told.Text, " is down") {
			require.Equal(t, "open", c.Circuit.State)
			require.Equal(t, "bad", c.Level)
		} else if told.ID == c.ID && strings.Contains(told.Text, " is failing") {
			require.GreaterOrEqual(t, failures, 1)
		}
	}
	for _, o := range d.Controls.Overrides {
		if o.Text == "retries of "+s.name+": off" {
			require.Equal(t, control.Off, s.retries)
		}
	}
}

func requireBudget(t *testing.T, d *pageData, budget *backoff.RetryBudget) {
	for _, b := range d.Budgets {
		require.Equal(t, b.Allowed, b.Used+b.Left)
	}
	b, stats := d.Budgets[slices.IndexFunc(d.Budgets, func(b budgetData) bool { return b.Name == "shared" })], budget.Stats()
	require.EqualValues(t, stats.Allowed, b.Allowed)
	require.EqualValues(t, stats.Retries, b.Used+b.Extra)
	require.True(t, b.Extra == 0 || b.Left == 0)
	if stats.Successes > 0 {
		require.Contains(t, b.Text, fmt.Sprintf("%d success", stats.Successes))
	}
}

// pageData is what the page is made of.
type pageData struct {
	Now    int64
	Period struct {
		Start   int64
		Seconds float64
		Text    string
	}
	Process struct {
		Program, Host, Version, Go string
		PID                        int
		Started                    int64
	}
	Headline struct {
		Level     string
		Sentences []struct{ Text, ID string }
	}
	Operations []cardData
	Controls   struct{ Overrides []struct{ Text string } }
	Breakers   []breakerData
	Budgets    []budgetData
}

type budgetData struct {
	Name                       string
	Used, Left, Allowed, Extra int
	Text                       string
}

type cardData struct {
	ID, Name, Endpoint, Level, Text string
	Circuit                         *breakerData
	Calls, Attempts                 int
	AttemptsPerCall                 float64 `json:"attempts_per_call"`
	CallsPerSecond                  float64 `json:"calls_per_second"`
	FailedShare                     string  `json:"failed_share"`
	Outcomes                        []struct {
		Name, Share string
		Count       int
	}
	Errors []struct {
		Type, Class string
		Count       int
		Since, Last int64
	}
	Attempting *struct {
		P50, P95, P99 float64
		Count         int
		InFlight      int `json:"in_flight"`
	}
	Chart struct {
		Step                     float64
		Succeeded, Failed, Extra []float64
	}
}

type breakerData struct {
	Name, State, Level, Text string
	Refused, Opened          int
}

// look returns what the page shows.
func look(t *testing.T, h http.Handler) *pageData {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/data", nil))
	d := new(pageData)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), d))
	return d
}

// card returns the card of an operation, or an empty one.
func (d *pageData) card(name string) cardData {
	for _, c := range d.Operations {
		if c.Name == name {
			return c
		}
	}
	return cardData{}
}

// outcome returns how many calls ended in a way.
func (c cardData) outcome(name string) int {
	for _, o := range c.Outcomes {
		if o.Name == name {
			return o.Count
		}
	}
	return -1
}

func (d *pageData) headline() string {
	var all []string
	for _, s := range d.Headline.Sentences {
		all = append(all, s.Text)
	}
	return strings.Join(all, " ")
}
