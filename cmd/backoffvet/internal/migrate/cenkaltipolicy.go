package migrate

import (
	"fmt"
	"go/ast"
	"go/token"
	"time"
)

// plan makes the policy of a call, and finds a place for it.
func (c *cenkalti) plan(r *retryCall) {
	p, err := c.policy(r)
	if err != nil {
		r.stays2(err.Error())
		return
	}
	r.literal = p.String()
	s := &r.settings
	if r.ctx != nil && !encloses(r.call, r.ctx) && !r.f.movable(r.ctx, r.call.Pos(), r.until()) {
		r.stays("the context of its backoff may change before the call")
	}
	switch {
	case s.v == nil:
	case len(s.consumers) > 1:
		r.stays("several calls share its backoff")
	case !r.movesToCall():
		r.stays("its settings may change before the call")
	}
}

// until is where the variables that a moved expression uses must not have changed: the call, or the
// end of the function if the call may be made again.
func (r *retryCall) until() token.Pos {
	s := &r.settings
	if len(s.config) > 0 && r.f.parents[r.f.statement(r.call)] == r.f.parents[s.config[0]] {
		return r.call.Pos()
	}
	return r.f.function(r.call).End()
}

// movesToCall reports whether the policy may be made where the call is.
func (r *retryCall) movesToCall() bool {
	stmt := r.f.statement(r.call)
	for _, e := range r.settings.expressions() {
		if !encloses(r.call, e) && !r.f.movable(e, stmt.Pos(), r.until()) {
			return false
		}
	}
	return true
}

// placed puts the policy of a call where the plan says, and returns how the call names it.
func (c *cenkalti) placed(r *retryCall) string {
	f, s := r.f, &r.settings
	for _, stmt := range s.inert {
		f.removeStmt(stmt)
	}
	for _, stmt := range s.config {
		f.removeStmt(stmt)
	}
	return r.beforeCall()
}

// beforeCall puts the policy before the statement of the call.
func (r *retryCall) beforeCall() string {
	uses := append(r.settings.expressions(), r.notify)
	stmt, ok := r.f.statement(r.call).(ast.Stmt)
	if r.settings.v == nil || !ok || !r.f.meanAll(uses, stmt) {
		return r.f.place(r.call, "policy", r.literal, uses)
	}
	name := r.settings.v.Name()
	r.f.insert(stmt.Pos(), name+" := "+r.literal+"\n")
	return name
}

// policy is the policy with the settings of a call.
func (c *cenkalti) policy(r *retryCall) (*policy, error) {
	p := new(policy)
	p.set("MaxAttempts", "%s", c.attempts(r))
	if err := c.elapsed(r, p); err != nil {
		return nil, err
	}
	if err := c.schedule(r, p); err != nil {
		return nil, err
	}
	if c.marksWaits(r) {
		p.set("MaxRetryAfter", "-1")
	}
	p.retryAll()
	return p, c.observe(r, p)
}

// attempts is MaxAttempts.
func (c *cenkalti) attempts(r *retryCall) string {
	f, s := r.f, &r.settings
	const many = 1 << 31
	if s.retries != nil {
		if n, ok := f.number(s.retries); ok && n >= many {
			return "-1"
		}
		return f.plusOne(s.retries)
	}
	if s.tries == nil {
		return "-1"
	}
	if n, ok := f.number(s.tries); ok {
		if n == 0 || n >= many {
			return "-1"
		}
		return f.source(f.unconverted(s.tries))
	}
	return gen("§cmp.Or(%s, -1)", f.asInt(f.unconverted(s.tries)))
}

// elapsed sets MaxElapsed.
func (c *cenkalti) elapsed(r *retryCall, p *policy) error {
	e, isDefault := r.settings.elapsed, c.options || r.settings.kind == "ExponentialBackOff"
	if !c.options {
		e = r.settings.fields["MaxElapsedTime"]
	}
	if e == nil {
		if isDefault {
			p.set("MaxElapsed", "%s", duration(15*time.Minute))
		}
		return nil
	}
	if n, ok := r.f.number(e); ok && n == 0 {
		return nil
	} else if ok && n < 0 {
		return fmt.Errorf("its time is negative")
	}
	text, err := r.f.expression(e, c.path)
	p.set("MaxElapsed", "%s", text)
	return err
}

// schedule sets Schedule and Jitter.
func (c *cenkalti) schedule(r *retryCall, p *policy) error {
	switch r.settings.kind {
	case "", "ExponentialBackOff":
		return c.exponential(r, p)
	case "ConstantBackOff":
		e := r.settings.fields["Interval"]
		if e == nil {
			return fmt.Errorf("its backoff has no Interval")
		}
		text, err := r.f.expression(e, c.path)
		p.set("Schedule", "§backoff.Constant(%s)", text)
		p.set("Jitter", "§backoff.NoJitter")
		return err
	}
	return fmt.Errorf("its backoff is a %s", r.settings.kind)
}

// exponential sets Schedule and Jitter to those of an ExponentialBackOff.
func (c *cenkalti) exponential(r *retryCall, p *policy) error {
	initial, err := c.field(r, "InitialInterval", duration(500*time.Millisecond), 1)
	if err != nil {
		return err
	}
	multiplier, err := c.field(r, "Multiplier", "1.5", 1)
	if err != nil {
		return err
	}
	limit, err := c.field(r, "MaxInterval", duration(time.Minute), 1)
	if err != nil {
		return err
	}
	switch first, most, known := c.bounds(r); {
	case !known:
		limit = fmt.Sprintf("max(%s, %s)", initial, limit) // less than Initial is invalid
	case first > most:
		return fmt.Errorf("its MaxInterval is below its InitialInterval")
	}
	p.set("Schedule", "§backoff.Exponential{Initial: %s, Multiplier: %s, Max: %s}", initial, multiplier, limit)
	return c.jitter(r, p)
}

// bounds are the first and the longest delay, if they are constants.
func (c *cenkalti) bounds(r *retryCall) (first, most float64, known bool) {
	first, most, known = 5e8, 6e10, true
	for name, to := range map[string]*float64{"InitialInterval": &first, "MaxInterval": &most} {
		if e := r.settings.fields[name]; e != nil {
			n, ok := r.f.number(e)
			*to, known = n, known && ok
		}
	}
	return first, most, known
}

// field is the text of a field of an ExponentialBackOff, which must be at least least.
func (c *cenkalti) field(r *retryCall, name, otherwise string, least float64) (string, error) {
	e := r.settings.fields[name]
	if e == nil {
		return otherwise, nil
	}
	switch n, ok := r.f.number(e); {
	case ok && n < least:
		return "", fmt.Errorf("its %s is %s, which has no equivalent", name, r.f.source(e))
	case !ok:
		r.note("if %s is 0, it means the default here, and not %s: 0", r.f.source(e), name)
	}
	return r.f.expression(e, c.path)
}

// jitter sets Jitter to what RandomizationFactor says.
func (c *cenkalti) jitter(r *retryCall, p *policy) error {
	e := r.settings.fields["RandomizationFactor"]
	factor := 0.5
	if e != nil {
		n, ok := r.f.number(e)
		if !ok {
			text, err := r.f.expression(e, c.path)
			p.set("Jitter", "§backoff.UniformJitter(1-(%[1]s), 1+(%[1]s))", text)
			return err
		}
		factor = n
	}
	switch {
	case factor < 0 || factor > 1:
		return fmt.Errorf("its RandomizationFactor is %s, which has no equivalent", decimal(factor))
	case factor == 0:
		p.set("Jitter", "§backoff.NoJitter")
	default:
		p.set("Jitter", "§backoff.UniformJitter(%s, %s)", decimal(1-factor), decimal(1+factor))
	}
	return nil
}
