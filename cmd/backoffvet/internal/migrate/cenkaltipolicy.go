package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"time"
)

// plan makes the policy of a call, and finds a place for it.
func (c *cenkalti) plan(r *retryCall) {
	p, err := c.policy(r)
	if err != nil {
		r.stays(err.Error())
		return
	}
	r.literal = p.String()
	stmt := r.f.statement(r.call)
	if slices.ContainsFunc(r.settings.expressions(), func(e ast.Expr) bool {
		return !encloses(r.call, e) && !r.f.movable(e, stmt.Pos(), r.until())
	}) {
		r.stays("its settings or its context may change before the call")
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

// placed puts the policy of a call before its statement, in the variable that its backoff had, or
// into the call. It returns how the call names it.
func (r *retryCall) placed() string {
	f, s := r.f, &r.settings
	for _, stmt := range slices.Concat(s.inert, s.config) {
		f.removeStmt(stmt)
	}
	stmt, ok := f.statement(r.call).(ast.Stmt)
	if s.v != nil && ok && !slices.ContainsFunc(append(s.expressions(), r.notify), func(e ast.Expr) bool { return e != nil && !f.means(e, stmt.Pos()) }) {
		f.insert(stmt.Pos(), s.v.Name()+" := "+r.literal+"\n")
		return s.v.Name()
	}
	switch stmt.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt:
		return "(" + r.literal + ")"
	}
	return r.literal
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
	p.set("Classify", "§backoff.RetryIf(func(error) bool { return true })") // as the old library did
	return p, c.observe(r, p)
}

// attempts is MaxAttempts.
func (c *cenkalti) attempts(r *retryCall) string {
	const many = 1 << 31
	f, s := r.f, &r.settings
	e := s.retries
	if e == nil {
		e = s.tries
	}
	if e == nil {
		return "-1"
	}
	switch n, ok := f.number(e); {
	case ok && (n >= many || n == 0 && s.retries == nil):
		return "-1"
	case s.retries != nil:
		return f.plusOne(e)
	case ok:
		return f.source(f.unconverted(e))
	}
	return gen("§cmp.Or(%s, -1)", f.asInt(f.unconverted(e)))
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
	initial, first, err1 := c.field(r, "InitialInterval", 500*time.Millisecond)
	multiplier, _, err2 := c.field(r, "Multiplier", 0)
	limit, most, err3 := c.field(r, "MaxInterval", time.Minute)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return err
	}
	switch {
	case first == 0 || most == 0:
		limit = fmt.Sprintf("max(%s, %s)", initial, limit) // less than Initial is invalid
	case first > most:
		return errors.New("its MaxInterval is below its InitialInterval")
	}
	p.set("Schedule", "§backoff.Exponential{Initial: %s, Multiplier: %s, Max: %s}", initial, multiplier, limit)
	return c.jitter(r, p)
}

// field is a field of an ExponentialBackOff, which is at least 1: its text, and its value
// if that is a constant.
func (c *cenkalti) field(r *retryCall, name string, otherwise time.Duration) (string, float64, error) {
	e := r.settings.fields[name]
	switch {
	case e == nil && otherwise == 0:
		return "1.5", 1.5, nil
	case e == nil:
		return duration(otherwise), float64(otherwise), nil
	}
	n, ok := r.f.number(e)
	if ok && n < 1 {
		return "", 0, fmt.Errorf("its %s is %s, which has no equivalent", name, r.f.source(e))
	}
	if !ok {
		r.note("if %s is 0, it means the default here, and not %s: 0", r.f.source(e), name)
	}
	text, err := r.f.expression(e, c.path)
	return text, n, err
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
