package backoffotel

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// Metrics returns a [backoff.Observer] that counts by mp. A nil mp means the
// global MeterProvider. One Observer can serve any number of policies, hedges
// and breakers. A MeterProvider should have only one: if two know a breaker or a
// budget of the same name, such as that of a host, only one of these is shown,
// be it open or not. It is safe for concurrent use. All metrics have the attribute
// backoff.operation, the name of the policy, hedge or breaker. Those of calls
// have backoff.endpoint, if it is known what a call is sent to: see package
// endpoint. The metrics and their other attributes are:
//
//	backoff.call.attempts (histogram, {attempt})
//		recorded when a call ends; its count is the calls, its sum the
//		attempts. backoff.outcome: first (success at the first attempt),
//		retried (success at a later one) or failed; a failed call also
//		has backoff.reason and error.type
//	backoff.retries (counter, {retry})
//		retries announced. backoff.class, error.type
//	backoff.reconnects (counter, {reconnect})
//		runs under a Supervisor that are followed by another one.
//		backoff.class, error.type
//	backoff.retry.delay (histogram, s)
//		delays before jitter
//	backoff.retry.wait (histogram, s)
//		waits, with jitter, Retry-After and budget
//	backoff.retry.slept (histogram, s)
//		the time really slept
//	backoff.refusals (counter, {refusal})
//		by breakers, and by budgets if the call went on. backoff.reason:
//		open or budget
//	backoff.hedges (counter, {hedge})
//		backoff.outcome: won or lost
//	backoff.breaker.transitions (counter, {transition})
//		backoff.breaker.from, backoff.breaker.to, backoff.breaker.trigger
//	backoff.breaker.state (gauge)
//		1 for the state in backoff.breaker.state that the breaker is in,
//		0 for the others; from the first call to an endpoint on, from
//		the first transition on, or by WatchBreaker or WatchServices
//	backoff.budget.allowed, backoff.budget.used (gauges, {retry})
//		of the budgets of endpoints, with the key as backoff.operation:
//		see WatchBudget
//	backoff.key.evictions (counter, {key})
//		keys of services that were forgotten for others.
//		Its only attribute is backoff.keys: see WatchServices
//
// A call that a breaker around its policy refused is a backoff.refusals with the
// name of the breaker. If a guard.Service puts the two together, it is also a
// backoff.call.attempts of the policy, of 0 attempts, that failed for the reason
// open. Otherwise the policy does not know of the call.
//
// How long attempts take, and how many are under way, say the metrics of what
// makes them, such as http.client.request.duration of otelhttp.
//
// The sum over the count of backoff.call.attempts is the amplification of the
// load. Retries without failures mean that thresholds are wrong. Retries
// without retried calls that succeed mean that the service is broken in a way
// that retries cannot fix.
//
// Cardinality: for each operation, a call has at most 2 + 12 reasons times the
// types of errors, and a retry 6 classes times the types of errors. The types
// are statuses, codes and types of the program, never texts. There are as many
// operations as names: do not name policies after what an untrusted client
// sends. The SDK has its own limit. A name of more than 200 bytes is sent as
// "other", and bytes that are not UTF-8 are replaced.
func Metrics(mp metric.MeterProvider) backoff.Observer { return newInstruments(mp).observe }

// instruments are the metrics of an Observer.
type instruments struct {
	successes successes

	attempts                      metric.Int64Histogram
	retries, reconnects           metric.Int64Counter
	delay, wait, slept            metric.Float64Histogram
	refusals, hedges, transitions metric.Int64Counter

	breakers breakers
	services registries
}

// meterOf returns the meter of this package.
func meterOf(mp metric.MeterProvider) metric.Meter {
	return cmp.Or(mp, otel.GetMeterProvider()).Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
}

// newInstruments makes the instruments. As instrumentation does, it reports
// errors of the provider to the program's error handler.
func newInstruments(mp metric.MeterProvider) *instruments {
	m := meterOf(mp)
	counter := func(name, unit, description string) metric.Int64Counter {
		return must(m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description)))
	}
	times := func(name, description string) metric.Float64Histogram {
		return must(m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(
			.005, .01, .025, .05, .1, .2, .4, .8, 1.6, 3.2, 6.4, 12.8, 30, 60, 120, 300)))
	}
	i := &instruments{
		attempts: must(m.Int64Histogram("backoff.call.attempts", metric.WithUnit("{attempt}"),
			metric.WithDescription("Attempts of calls that are over."), metric.WithExplicitBucketBoundaries(0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20))),
		retries:     counter("backoff.retries", "{retry}", "Retries of calls."),
		reconnects:  counter("backoff.reconnects", "{reconnect}", "Runs that follow another one."),
		delay:       times("backoff.retry.delay", "Delays before retries and reconnects, before jitter."),
		wait:        times("backoff.retry.wait", "Waits before retries and reconnects, with jitter and Retry-After."),
		slept:       times("backoff.retry.slept", "Time slept before attempts."),
		refusals:    counter("backoff.refusals", "{refusal}", "Refusals by breakers and budgets."),
		hedges:      counter("backoff.hedges", "{hedge}", "Hedges that were sent."),
		transitions: counter("backoff.breaker.transitions", "{transition}", "Changes of state of breakers."),
	}
	i.successes.byName.Store(&map[caller][]metric.RecordOption{})
	i.breakers.states = make(map[string]backoff.BreakerState)
	_ = must(watch(m, func(r *reading) {
		for s := range i.services.known.Range {
			r.add("services of endpoints", s.(*guard.Services))
		}
		i.breakers.addTo(r)
	}))
	return i
}

// must returns an instrument and reports its error.
func must[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

// observe is the Observer.
func (i *instruments) observe(ctx context.Context, e backoff.Event) {
	to := endpoint.Of(ctx)
	if to != nil && to.Services != nil {
		i.services.add(to.Services)
	}
	if e.Kind == backoff.EventSuccess && e.Attempt <= 1 && e.Slept == 0 {
		i.attempts.Record(ctx, int64(e.Attempt), i.successes.of(e.Name, to)...)
		return
	}
	i.observeRest(ctx, to, e)
}

// observeRest observes what is not a success at once.
func (i *instruments) observeRest(ctx context.Context, to *endpoint.Endpoint, e backoff.Event) {
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(namesOf(e.Name, to, more...)...)
	}
	if e.Slept > 0 && e.Kind != backoff.EventRefused { // then the wait goes on
		i.slept.Record(ctx, e.Slept.Seconds(), with())
	}
	switch e.Kind {
	case backoff.EventSuccess:
		outcome := "retried"
		if e.Attempt <= 1 && e.Slept <= e.Elapsed { // else Run.Progress made a later one the first again
			outcome = "first"
		}
		i.attempts.Record(ctx, int64(e.Attempt), with(keyOutcome.String(outcome)))
	case backoff.EventGiveUp:
		i.attempts.Record(ctx, int64(e.Attempt), with(withErrorType(e.Err, keyOutcome.String("failed"), keyReason.String(e.Reason.String()))...))
	case backoff.EventRetry:
		i.countRepeat(ctx, i.retries, to, e)
	case backoff.EventReconnect:
		i.countRepeat(ctx, i.reconnects, to, e)
	case backoff.EventRefused:
		if e.Reason == backoff.ReasonOpen && e.Wait > 0 {
			return // of a policy that waits: the breaker has an event of its own
		}
		i.refusals.Add(ctx, 1, with(keyReason.String(e.Reason.String())))
	case backoff.EventHedgeWon:
		i.hedges.Add(ctx, 1, with(keyOutcome.String("won")))
	case backoff.EventHedgeLost:
		i.hedges.Add(ctx, 1, with(keyOutcome.String("lost")))
	case backoff.EventTransition:
		i.countTransition(ctx, e.Transition)
	}
}

// namesOf returns the attributes that say who calls, and what is called.
func namesOf(name string, to *endpoint.Endpoint, more ...attribute.KeyValue) []attribute.KeyValue {
	all := []attribute.KeyValue{keyOperation.String(nameOf(name))}
	if to != nil {
		all = append(all, keyEndpoint.String(nameOf(to.Name)))
	}
	return append(all, more...)
}

// withErrorType adds error.type if there is an error.
func withErrorType(err error, attributes ...attribute.KeyValue) []attribute.KeyValue {
	if err != nil {
		attributes = append(attributes, errorType(err))
	}
	return attributes
}

// countRepeat counts an attempt that another one follows.
func (i *instruments) countRepeat(ctx context.Context, counter metric.Int64Counter, to *endpoint.Endpoint, e backoff.Event) {
	counter.Add(ctx, 1, metric.WithAttributes(namesOf(e.Name, to, withErrorType(e.Err, keyClass.String(e.Class.String()))...)...))
	names := metric.WithAttributes(namesOf(e.Name, to)...)
	i.delay.Record(ctx, e.Delay.Seconds(), names)
	i.wait.Record(ctx, e.Wait.Seconds(), names)
}

// countTransition counts a transition, and notes the state.
func (i *instruments) countTransition(ctx context.Context, t *backoff.BreakerTransition) {
	if t == nil {
		return
	}
	i.transitions.Add(ctx, 1, metric.WithAttributes(keyOperation.String(nameOf(t.Name)),
		keyFrom.String(t.From.String()), keyTo.String(t.To.String()), keyTrigger.String(t.Trigger)))
	i.breakers.set(nameOf(t.Name), t.To)
}

// successes keeps the attributes of calls that succeed at once. Most calls do,
// and should not allocate them.
type successes struct {
	byName atomic.Pointer[map[caller][]metric.RecordOption] // never nil
	mu     sync.Mutex                                       // held to add a name
}

// caller is who calls, and what is called, if that is known. It goes by the names:
// a program may make a client, and its Endpoints, for each request.
type caller struct {
	name, endpoint string
	sent           bool // the endpoint is known
}

// maxSuccesses is how many names are kept.
const maxSuccesses = 1000

// of returns the options of a name and an endpoint.
func (s *successes) of(name string, to *endpoint.Endpoint) []metric.RecordOption {
	c := caller{name: name}
	if to != nil {
		c.endpoint, c.sent = to.Name, true
	}
	known := *s.byName.Load()
	if options, ok := known[c]; ok {
		return options
	}
	options := []metric.RecordOption{metric.WithAttributes(namesOf(name, to, keyOutcome.String("first"))...)}
	if len(known) < maxSuccesses {
		s.add(caller{strings.Clone(c.name), strings.Clone(c.endpoint), c.sent}, options)
	}
	return options
}

// add adds a caller, if there are not too many.
func (s *successes) add(c caller, options []metric.RecordOption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.byName.Load())
	if len(all) < maxSuccesses {
		all[c] = options
		s.byName.Store(&all)
	}
}
