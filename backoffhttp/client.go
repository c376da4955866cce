package backoffhttp

import (
	"cmp"
	"net/http"
	"reflect"

	"github.com/gobackoff/backoff"
)

// Client returns a client with a [Transport] with the policy, around
// [http.DefaultTransport]. Like [http.DefaultClient] it has no timeout: give
// its requests a context that ends, or the policy an AttemptTimeout.
//
// Like every Transport it has a [guard.Service] for each host, which may slow a call
// down, or end it before the policy does:
//
//   - A [pace.Pacer] makes calls wait for their turn once the host has said "too
//     much" (429). Its [backoff.RetryBudget] lets successes pay for other retries: the
//     first call to a host may use all of its attempts, and later ones, while nothing
//     succeeds, make one attempt or two.
//   - An [adaptive.Limit] bounds how many attempts run at once while the host is
//     overloaded: slower than usual, and quicker with fewer.
//   - A [backoff.Breaker] opens when all calls fail, 5 of them at least and over a
//     second, or half of them while the host is slower than usual. Then calls wait
//     until a probe succeeds, or fail at once if the Transport is FailFast.
//
// To change that, set Transport.Services, or Policy.Budget in place of the first
// two. [Unguarded] is a Transport without guards. If a guard or the policy
// ends a call after a response, the client returns the response, such as a 503,
// and no error: [Check] then returns an error that says what ended the call.
// A wait for a retry discards the response: if no other one comes, the client returns an
// error.
func Client(policy backoff.Policy) *http.Client { return WrapClient(new(http.Client), policy) }

// WrapClient returns a copy of c that retries: it has the CheckRedirect and the
// Jar of c, and a [Transport] with the policy around the Transport of c. c
// itself stays as it is. Both share connections and cookies. A nil c means
// [http.DefaultClient].
//
// The Timeout of c becomes the limit of each attempt, with the time to read the
// body, as in go-retryablehttp. The new client has no Timeout: a call may take
// that time for each attempt, and its waits besides. To limit the whole call,
// give the request a context that ends, or set the Timeout of the new client.
// (Policy.MaxElapsed only limits when a retry may begin.) Zero and a negative
// Timeout are no limit, as in net/http.
//
// An attempt that takes too long is retried, if its request may be sent twice.
// Its error matches [backoff.ErrAttemptTimeout] and [context.DeadlineExceeded].
// A response is returned when its header is there. If the time ends later,
// reading the body fails with such an error, and nothing is retried, unless
// Transport.Resume asks for the rest: each attempt to get it has a new Timeout.
// Policy.AttemptTimeout also limits the time until the header: the shorter of
// the two ends the attempt.
//
// Each redirect is a separate call: it has all its attempts, and each attempt
// has the whole Timeout. In go-retryablehttp an attempt follows all redirects
// within one Timeout, and the next attempt begins with the first URL.
//
// The Jar gets the cookies of all responses, also of those that are retried, and the
// next attempt sends what the Jar then holds, behind the cookies that the caller wrote
// into the header. A Transport that was not made by WrapClient knows no Jar: the cookies
// of a response that it retries are lost, as they are if the new client's Jar is
// replaced.
//
// A body without GetBody is read once, as by any Transport. The Transport of the
// new client is a *Transport, or an *Unguarded if that of c is one. Its other fields
// may be set before first use:
//
//	client := backoffhttp.WrapClient(c, policy)
//	client.Transport.(*backoffhttp.Transport).MaxBuffer = 1 << 20
//
// If the Transport of c is a *Transport or an *Unguarded already, the new one
// replaces it: it has the same fields, except Policy and Control, and guards of its
// own, unless Services is set. So attempts do not multiply. If both clients had a
// Timeout, the shorter one holds. A *Transport deeper in a chain of RoundTrippers
// stays, and decides: what it gave up on is not sent again.
func WrapClient(c *http.Client, policy backoff.Policy) *http.Client {
	c = cmp.Or(c, http.DefaultClient)
	wrapped := *c
	wrapped.Timeout = 0
	t := &Transport{Base: c.Transport}
	wrapped.Transport = t
	switch inner := c.Transport.(type) {
	case *Transport:
		t = inner.copy()
		wrapped.Transport = t
	case *Unguarded:
		t = (*Transport)(inner).copy()
		wrapped.Transport = (*Unguarded)(t)
	}
	t.Policy = policy
	t.wholeTimeout, t.jar = shorter(c.Timeout, t.wholeTimeout), c.Jar
	return &wrapped
}

// copy returns a Transport with the same exported fields, except Control, and
// none of the state.
func (t *Transport) copy() *Transport {
	c := &Transport{wholeTimeout: t.wholeTimeout}
	from, to := reflect.ValueOf(t).Elem(), reflect.ValueOf(c).Elem()
	for i := range from.NumField() {
		if from.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	c.Control = nil
	return c
}
