package backoffhttp

import (
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// advised returns err, whose tree holds e, with what the answer says about
// retries, and what the rate limits of the vendor say. Dates are compared with
// now.
func (e *StatusError) advised(err error, limits []RateLimit, now time.Time) error {
	_, asked := retryafter.Asked(e.Header, now)
	reset, used := exhausted(e.Header, limits, now)
	switch {
	case (asked || used) && limitsRefuseWith(e.Code, limits):
		e.class = backoff.ClassThrottled
	case asked && e.Code == http.StatusRequestEntityTooLarge:
		e.class = backoff.ClassRetryable // too large at the moment (RFC 9110, 15.5.14)
	}
	if wait, ok := retryafter.From(e.Header, now); ok {
		err = backoff.RetryAfter(err, wait)
	} else if used {
		err = backoff.RetryAfter(err, reset)
	}
	return e.signalled(err)
}

// signalled marks err by the headers that say whether to retry, rather than
// when. They go before any classifier. A "yes" comes from servers that know more
// than their status says, such as Stripe's.
func (e *StatusError) signalled(err error) error {
	if pushback, ok := retryafter.ParsePushback(e.Header[headerPushback]...); ok && pushback >= 0 {
		return backoff.Pushback(err, pushback)
	}
	retry, said := retryAdvice(e.Header)
	if !said {
		return err
	}
	switch class := Classify(e); {
	case retry && class.Retryable():
		return backoff.OfClass(err, class)
	case retry:
		return backoff.OfClass(err, backoff.ClassRetryable)
	case e.permanent():
		return backoff.Permanent(err)
	case class == backoff.ClassThrottled: // for budgets
		err = backoff.OfClass(err, backoff.ClassThrottled)
	}
	return backoff.OfClass(err, backoff.ClassOverloaded)
}

// permanent reports whether the response is one that a healthy server gives if
// the request must not be repeated, such as one for a declined card.
func (e *StatusError) permanent() bool {
	class := Classify(e)
	return class == backoff.ClassPermanent || e.Code < 500 && class != backoff.ClassThrottled
}

// retryAdvice reads the headers of proxies and vendors that allow or forbid a
// retry, and whether there are any. A "no" goes before a "yes". Envoy's headers mean
// "no" with any value, a pushback if it is negative or malformed.
func retryAdvice(h http.Header) (retry, said bool) {
	if saysOverload(h) {
		return false, true
	}
	for _, name := range [...]string{headerShouldRetry, headerStripeRetry} {
		switch strings.ToLower(h.Get(name)) {
		case "false":
			return false, true
		case "true":
			retry, said = true, true
		}
	}
	return retry, said
}

// saysOverload reports whether a server, or a proxy, says "do not retry" because
// it has too much to do.
func saysOverload(h http.Header) bool {
	pushback, ok := retryafter.ParsePushback(h[headerPushback]...)
	return h.Get(headerEnvoyLoad) != "" || h.Get(headerEnvoyLimit) != "" || ok && pushback < 0
}
