package backoffhttp

import (
	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/gaveup"
)

// markGivenUp stores why there were no more attempts, in the context of the
// request of the answer. The request is req if Base left it out.
func (c *call) markGivenUp(err error) {
	refused, _ := errtree.As[refusal](err)
	gave, ok := refused.(*backoff.Error)
	switch {
	case ok:
	case c.resp.StatusCode >= 400:
		return // the response is permanent: its status says so
	default: // Inspect says so, and the status does not
		gave = &backoff.Error{Name: c.policy.Name, Attempts: c.number, Reason: backoff.ReasonPermanent, Last: err}
	}
	if c.resp.Request == nil {
		c.resp.Request = c.req
	}
	if m := gaveup.Of(c.resp.Request); m == nil || m.Why != gave { // by a Transport inside this one
		gaveup.Set(c.resp, &gaveup.Mark{Why: gave, Remark: c.remark(gave), Answer: c.resp})
	}
}

// finalWithoutKey returns the error of a call. If its request does not carry the
// key of its context, the error is permanent to the policy that has the key, also if
// the Transport leaves retries to that policy. If the request must not be repeated,
// that is why, also if its body can be read once only.
func (c *call) finalWithoutKey(err error) error {
	rules := backoff.Policy{MaxAttempts: -1, Classify: c.t.classify}
	gave, ok := err.(*backoff.Error)
	if ok && c.lacksKey == nil && gave.Reason == backoff.ReasonAttempts && c.sentOnce && !c.single.said.Repeatable(c.req.Context(), gave.Class()) {
		made := *gave
		made.Reason = backoff.ReasonNotIdempotent
		rules.Idempotency = c.single.said
		return rules.GiveUp(c.req.Context(), made)
	}
	if !ok || c.lacksKey == nil || gave.Reason != backoff.ReasonNotIdempotent && !gave.RetryableError() ||
		c.lacksKey.Repeatable(c.req.Context(), rules.Decide(1, gave.Last).Class) {
		return err
	}
	made := *gave
	made.Note = "the request does not carry the idempotency key of its context"
	return rules.GiveUp(c.req.Context(), made)
}

// remark says what to change, if the error names no field of the Transport.
func (c *call) remark(gave *backoff.Error) string {
	switch why := gave.Reason; {
	case gave.Note != "":
		return "" // it is said
	case why == backoff.ReasonBudget && c.t.hosts.guarded && c.guards.source.Budget == nil:
		return c.hostBudgetRemark(gave)
	case why == backoff.ReasonAttempts && c.sentOnce && !c.single.Repeatable(c.req.Context(), gave.Class()):
		return c.bodyRemark()
	case c.upstream > 1 && (why == backoff.ReasonNotIdempotent || why == backoff.ReasonAttempts && gave.Attempts == 1 && c.guards.source.MaxAttempts != 1):
		return "the caller of this service is retrying already (Inbound)"
	case why == backoff.ReasonNotIdempotent && c.t.Idempotency == nil && Idempotency(c.req) != backoff.Idempotent:
		return "a " + c.req.Method + " without " + c.t.keyHeader()
	}
	return ""
}

// bodyRemark is remark for a body that can be read once only.
func (c *call) bodyRemark() string {
	if c.turn.Own {
		return "the body of the request could not be read"
	}
	return "the body of the request cannot be sent again (Request.GetBody, Transport.MaxBuffer)"
}

// hostBudgetRemark is remark for a refusal of the host's budget. A Pacer that refuses a
// first attempt, or the retry of a throttled one, has no turn for it. The RetryBudget in
// it refuses neither.
func (c *call) hostBudgetRemark(gave *backoff.Error) string {
	state := c.t.hosts.state(c.guards.service)
	if state.Budget != nil && gave.Attempts == 0 || state.PerSecond > 0 && c.t.classify(gave.Last) == backoff.ClassThrottled {
		return "too many calls to the host wait for their turn (Policy.MaxRetryAfter, Transport.Services)"
	}
	return "it is the budget of the host (Transport.Services)"
}
